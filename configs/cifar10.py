"""Small networks for CIFAR-10; those that ship with the package were trained by these, some in fewer epochs.

jaxrobust train --config configs/cifar10.py:pgd-at --data=npz:cifar10_train.npz --out=runs/cifar10-pgd-at

`standard`, `fast-at` and `pgd-at` start from scratch, `fast-at-tuned`, `pgd-at-tuned`, `awp`, `trades` and `half-at`
from --init=FOLDER of an earlier one.
"""

from ml_collections import ConfigDict

EPS = "8/255"


def get_config(arg: str = "standard") -> ConfigDict:
  """`arg` names the network; ",runlocal" after it makes everything small enough for a minute on a CPU."""
  name, _, mode = arg.partition(",")
  if mode not in ("", "runlocal"):
    raise ValueError(f"an argument is NAME[,runlocal], not {arg}")
  config = ConfigDict()
  config.arch = "resnet20"
  config.data = "cifar10-train"
  config.batch_size = 128
  config.optimizer = "sgd"
  config.learning_rate = 0.1
  config.weight_decay = 5e-4
  config.holdout = 1000
  config.techniques = ("pad-crop-flip", name)
  config.options = ConfigDict()
  if name == "standard":
    config.schedule, config.epochs = "cyclic", 15.0
  elif name == "fast-at":
    config.schedule, config.epochs = "cyclic", 15.0
    config.options[name] = ConfigDict({"eps": EPS, "step_size": 1.25})
    config.attack_warmup_epochs = 1.0
  elif name == "fast-at-tuned":
    config.techniques = ("pad-crop-flip", "fast-at", "ema")
    config.options["fast-at"] = ConfigDict({"eps": EPS, "step_size": 1.25})
    config.options["ema"] = ConfigDict({"decay": 0.995})
    config.schedule, config.learning_rate, config.epochs = "cyclic", 0.06, 4.0
  elif name in ("pgd-at", "pgd-at-tuned", "awp", "half-at"):
    objective = "half-at" if name == "half-at" else "pgd-at"
    config.techniques = ("pad-crop-flip", objective, *(["awp"] if name == "awp" else []), "ema")
    config.options[objective] = ConfigDict({"eps": EPS, "num_steps": 3, "step_size": 0.5})
    config.options["ema"] = ConfigDict({"decay": 0.995})
    config.schedule, config.epochs = "cyclic", 15.0
    if name != "pgd-at":
      config.schedule, config.learning_rate, config.epochs = "cosine", 0.02, 4.0
  elif name == "trades":
    config.techniques = ("pad-crop-flip", "trades", "ema")
    config.options["trades"] = ConfigDict({"eps": EPS, "beta": 6.0, "num_steps": 3, "step_size": 0.5})
    config.options["ema"] = ConfigDict({"decay": 0.995})
    config.schedule, config.learning_rate, config.epochs = "cosine", 0.02, 4.0
  else:
    raise ValueError("known: standard, fast-at, fast-at-tuned, pgd-at, pgd-at-tuned, awp, half-at, trades")
  if mode == "runlocal":
    config.arch, config.data, config.epochs, config.holdout = "cnn-tiny", "digits32-train", 0.2, 64
  return config
