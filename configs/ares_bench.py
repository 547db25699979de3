"""ARES-Bench's adversarial training on ImageNet (paper 003, §3.2.2 and appendix A).

jaxrobust train --config configs/ares_bench.py:swin_base_patch4_window7_224 --data=imagenet-train --out=runs/swin-b

PGD-3 at linf 4/255 with steps of 2/3 eps, EMA 0.9998, label smoothing 0.1, Mixup, RandAugment, color jitter, random
erasing, no weight decay; crops are random (the text has the center crop of evaluation). Transformers and ConvNeXt:
AdamW, 300 epochs, cosine; others: SGD with momentum 0.9, 95 epochs, a tenth of the rate every 30; 5 epochs of warm-up.
"ARCH,runlocal" takes a minute on a CPU.

"ARCH,files" is what the authors' files (robust_training/train_configs) have instead: weight decay 0.05 (SGD 1e-4), the
rate from 1e-6 (1e-4) and down to 1e-5, and for SGD networks no RandAugment, no erasing, and jitter 0.1. They choose
between Mixup 0.8 and CutMix 1.0 for each batch, here it is Mixup; their step grows epoch by epoch from a random start
in the whole ball: --attack_warmup_epochs=5 grows budget and step alike. Deviation: bfloat16.
"""

from ml_collections import ConfigDict

# Trained with AdamW; everything else with SGD.
_ADAMW = ("vit", "deit", "swin", "xcit", "t2t", "mixer", "convnext")


def get_config(arg: str = "resnet50") -> ConfigDict:
  """The recipe for one architecture of the model zoo."""
  arch, _, mode = arg.partition(",")
  config = ConfigDict()
  config.arch = arch
  config.data = "imagenet-train"
  config.batch_size = 512
  config.weight_decay = 0.0
  config.warmup_epochs = 5.0
  images = ("random-resized-crop", "flip", "color-jitter", "randaugment", "random-erasing")
  config.techniques = (*images, "mixup", "label-smoothing", "pgd-at", "ema")
  config.options = ConfigDict(
    {
      "pgd-at": {"eps": "4/255", "num_steps": 3, "step_size": 2 / 3},
      "mixup": {"alpha": 0.8},
      "random-erasing": {"probability": 0.25, "noise": True},
      "label-smoothing": {"amount": 0.1},
      "ema": {"decay": 0.9998},
    }
  )
  config.precision = "bfloat16"
  if arch.startswith(_ADAMW):
    config.optimizer, config.learning_rate = "adamw", 5e-4
    config.epochs, config.schedule = 300.0, "cosine"
  else:
    config.optimizer, config.learning_rate = "momentum", 0.2
    config.epochs, config.schedule = 95.0, "step-30"
  if mode == "files":
    adamw = config.optimizer == "adamw"
    config.weight_decay, config.first_rate, config.last_rate = 0.05 if adamw else 1e-4, 1e-6 if adamw else 1e-4, 1e-5
    if not adamw:
      left_out = ("randaugment", "random-erasing")
      config.techniques = tuple(name for name in config.techniques if name not in left_out)
      del config.options["random-erasing"]
      config.options["color-jitter"] = ConfigDict({"brightness": 0.1, "contrast": 0.1, "saturation": 0.1})
  elif mode == "runlocal":
    config.arch, config.data, config.precision = "cnn-tiny", "digits32-train", "float32"
    config.epochs, config.batch_size, config.warmup_epochs = 0.2, 64, 0.0
  elif mode:
    raise ValueError("an argument is ARCH[,files|,runlocal]")
  return config
