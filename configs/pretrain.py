"""Pre-training, and the fine-tuning that follows it.

jaxrobust train --config configs/pretrain.py:mae --out=runs/mae
jaxrobust train --config configs/pretrain.py:mae-tune --init=runs/mae --out=runs/mae-tuned

`moco-v2` (RobustART: 200 epochs, then 100; paper 000, F.2), `moco-v3`, `moco-v3-resnet50` and `mae` (ARES-Bench's
self-supervised networks), `simmim` (its Swin-B), `acl` (adversarial contrastive learning on CIFAR-10) and
`imagenet21k` (100 epochs in RobustART's aligned setting, then 30 at a peak of 0.04 warmed up to from 0.01). The
numbers are those of each method's authors; where they use LARS, SGD with Nesterov momentum stands in. ",runlocal"
after a name makes it small enough for a minute on a CPU.
"""

from ml_collections import ConfigDict

# Architecture, data, epochs, batch size, optimizer, learning rate, weight decay, warm-up epochs.
_ROWS = {
  "moco-v2": ("resnet50", "imagenet-train", 200, 256, "sgd", 0.03, 1e-4, 0),
  "moco-v2-tune": ("resnet50", "imagenet-train", 100, 512, "sgd", 0.2, 1e-4, 0),
  "moco-v3": ("vit_base_patch16_224", "imagenet-train", 300, 4096, "adamw", 2.4e-3, 0.1, 40),
  "moco-v3-resnet50": ("resnet50", "imagenet-train", 300, 4096, "sgd", 9.6, 1.5e-6, 10),
  "moco-v3-tune": ("vit_base_patch16_224", "imagenet-train", 150, 1024, "adamw", 5e-4, 0.05, 5),
  "mae": ("vit_base_patch16_224", "imagenet-train", 800, 4096, "adamw", 2.4e-3, 0.05, 40),
  "mae-tune": ("vit_base_patch16_224", "imagenet-train", 100, 1024, "adamw", 2e-3, 0.05, 5),
  "simmim": ("swin_base_patch4_window7_224", "imagenet-train", 800, 2048, "adamw", 4e-4, 0.05, 10),
  "simmim-tune": ("swin_base_patch4_window7_224", "imagenet-train", 100, 2048, "adamw", 5e-3, 0.05, 20),
  "acl": ("cifar-resnet18", "cifar10-train", 1000, 512, "sgd", 0.5, 1e-6, 10),
  "acl-tune": ("cifar-resnet18", "cifar10-train", 25, 128, "sgd", 0.1, 2e-4, 0),
  "imagenet21k": ("resnet50", "folder:imagenet21k", 100, 512, "sgd", 0.4, 1e-4, 2),
  "imagenet21k-tune": ("resnet50", "imagenet-train", 30, 512, "sgd", 0.04, 1e-4, 2),
}
# Where the warm-up begins, if not at nothing: RobustART's aligned setting and a tenth of it.
_FIRST_RATES = {"imagenet21k": 0.1, "imagenet21k-tune": 0.01}
_SUPERVISED = ("random-resized-crop", "flip", "color-jitter", "label-smoothing")
# What each is trained with; fine-tuning and ImageNet-21K are supervised.
_TECHNIQUES = {
  "moco-v2": ("moco-v2",),
  "moco-v3": ("moco-v3",),
  "moco-v3-resnet50": ("moco-v3",),
  "mae": ("random-resized-crop", "flip", "mae"),
  "simmim": ("random-resized-crop", "flip", "simmim"),
  "acl": ("acl",),
  "acl-tune": ("pad-crop-flip", "trades"),
  "mae-tune": ("random-resized-crop", "flip", "randaugment", "mixup", "label-smoothing"),
  "simmim-tune": ("random-resized-crop", "flip", "randaugment", "mixup", "label-smoothing"),
}
_OPTIONS = {
  "moco-v3": {"moco-v3": {"smallest": 0.08, "frozen_patches": True}},
  "moco-v3-resnet50": {"moco-v3": {"momentum": 0.996}},
  "mae": {"random-resized-crop": {"smallest": 0.2}, "mae": {"normalize": True}},
  "simmim": {"random-resized-crop": {"smallest": 0.67}},
  "mae-tune": {"mixup": {"alpha": 0.8}},
  "simmim-tune": {"mixup": {"alpha": 0.8}},
}
# As small as it gets: networks for 32 pixels, and projections and decoders to fit them.
_LOCAL = {
  "moco-v2": {"moco-v2": {"queue": 256, "features": 32, "hidden": 64, "momentum": 0.9}},
  "moco-v3": {"moco-v3": {"features": 32, "hidden": 64, "momentum": 0.9, "frozen_patches": True}},
  "moco-v3-resnet50": {"moco-v3": {"features": 32, "hidden": 64, "momentum": 0.9}},
  "mae": {"random-resized-crop": {"smallest": 0.8}, "mae": {"hidden": 0.5, "features": 32, "depth": 1, "num_heads": 4}},
  "simmim": {"random-resized-crop": {"smallest": 0.8}, "simmim": {"size": 8}},
  "acl": {"acl": {"features": 32, "hidden": 64, "num_steps": 2, "step_size": 0.5}},
}


def get_config(arg: str = "mae") -> ConfigDict:
  """The recipe of one pre-training, or of the fine-tuning after it."""
  name, _, mode = arg.partition(",")
  if name not in _ROWS or mode not in ("", "runlocal"):
    raise ValueError(f"an argument is NAME[,runlocal] with one of {', '.join(_ROWS)}")
  arch, data, epochs, batch_size, optimizer, learning_rate, weight_decay, warmup = _ROWS[name]
  config = ConfigDict()
  config.arch, config.data = arch, data
  config.epochs, config.batch_size, config.warmup_epochs = float(epochs), batch_size, float(warmup)
  config.optimizer, config.learning_rate, config.weight_decay = optimizer, learning_rate, weight_decay
  config.schedule, config.first_rate = "cosine", _FIRST_RATES.get(name, 0.0)
  config.techniques = _TECHNIQUES.get(name, _SUPERVISED)
  config.options = ConfigDict(_OPTIONS.get(name, {}))
  config.precision = "float32" if name.startswith("acl") else "bfloat16"
  if mode == "runlocal":
    transformer = name.removesuffix("-tune") in ("moco-v3", "mae", "simmim")
    config.arch, config.data = "vit-micro" if transformer else "cnn-tiny", "digits32-train"
    config.epochs, config.batch_size, config.warmup_epochs, config.precision = 0.2, 64, 0.0, "float32"
    config.optimizer, config.learning_rate, config.weight_decay = "adamw", 2e-3, 1e-4
    config.first_rate = 0.0
    config.options = ConfigDict(_LOCAL.get(name, {}))
    if transformer:
      config.arch_options = ConfigDict({"patch_size": 8})
  return config
