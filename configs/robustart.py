"""RobustART's aligned setting (paper 000, §3.1.2 and E.2) over its 49 architectures.

jaxrobust train --config configs/robustart.py:resnet50 --data=imagenet-train --out=runs/resnet50

Convolutional networks: SGD with Nesterov momentum 0.9, weight decay 1e-4, cosine over 100 epochs, batch 512, label
smoothing 0.1. Transformers and mixers: AdamW with weight decay 0.05. Arguments: "ARCH", "ARCH,half-at" (clean and
adversarial images 1:1 at linf 16/255, Table 5; 20 steps of 1/15 of it, as in the authors' code), and ",runlocal" at the
end for a form that takes a minute on a CPU.
"""

from ml_collections import ConfigDict

CONVOLUTIONAL = (
  *("resnet18", "resnet34", "resnet50", "resnet101", "resnet152"),
  *("resnext50_32x4d", "resnext101_32x8d", "wide_resnet50_2", "wide_resnet101_2"),
  *("densenet121", "densenet169", "densenet201"),
  *("shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "shufflenet_v2_x1_5", "shufflenet_v2_x2_0"),
  *("mobilenetv2_050", "mobilenetv2_075", "mobilenetv2_100", "mobilenetv2_140"),
  *("repvgg_a0", "repvgg_b3"),
  *("regnetx_004", "regnetx_008", "regnetx_016", "regnetx_032", "regnetx_064"),
  *("efficientnet_b0", "efficientnet_b1", "efficientnet_b2", "efficientnet_b3", "efficientnet_b4"),
  *("mobilenetv3_large_035", "mobilenetv3_large_050", "mobilenetv3_large_075"),
  *("mobilenetv3_large_100", "mobilenetv3_large_140"),
)
TRANSFORMERS = (
  *("vit_base_patch16_224", "vit_base_patch32_224"),
  *("deit_tiny_patch16_224", "deit_small_patch16_224", "deit_base_patch16_224"),
  *("vitae_tiny", "vitae_small"),
  *("swin_tiny_patch4_window7_224", "swin_small_patch4_window7_224", "swin_base_patch4_window7_224"),
  *("mixer_b16_224", "mixer_l16_224"),
)
ARCHITECTURES = CONVOLUTIONAL + TRANSFORMERS


def get_config(arg: str = "resnet50") -> ConfigDict:
  """The aligned setting of one architecture."""
  arch, *words = arg.split(",")
  if arch not in ARCHITECTURES or set(words) - {"half-at", "runlocal"}:
    raise ValueError(f"an argument is ARCH[,half-at][,runlocal] with one of the {len(ARCHITECTURES)} architectures")
  config = ConfigDict()
  config.arch = arch
  config.data = "imagenet-train"
  config.epochs = 100.0
  config.batch_size = 512
  config.schedule = "cosine"
  config.techniques = ("random-resized-crop", "flip", "color-jitter", "label-smoothing")
  config.options = ConfigDict({"label-smoothing": {"amount": 0.1}})
  config.precision = "bfloat16"
  if arch in TRANSFORMERS:
    config.optimizer, config.learning_rate, config.weight_decay = "adamw", 5e-4, 0.05
    config.warmup_epochs, config.clip = 5.0, 1.0
  else:
    # "Base learning rate 0.1, warm-up learning rate 0.4" (F.1): the rate rises to 0.4 and falls from there.
    config.optimizer, config.learning_rate, config.weight_decay = "sgd", 0.4, 1e-4
    config.warmup_epochs = 1.0
  if "half-at" in words:
    config.techniques += ("half-at",)
    config.options["half-at"] = ConfigDict({"eps": "16/255", "num_steps": 20, "step_size": 1 / 15})
  if "runlocal" in words:
    config.arch, config.data, config.precision = "cnn-tiny", "digits32-train", "float32"
    config.epochs, config.batch_size, config.warmup_epochs = 0.2, 64, 0.0
  return config
