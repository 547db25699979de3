"""The main job: a standard and an adversarially trained network on the embedded digits, and the verdict on both.

jaxrobust run --config configs/local.py
"""

from ml_collections import ConfigDict


def get_config(arg: str | None = None) -> ConfigDict:
  """`arg` "tiny" makes everything as small as it gets, for tests."""
  tiny = arg == "tiny"
  config = ConfigDict()
  config.networks = ConfigDict()
  config.networks["standard"] = ConfigDict({"arch": "cnn-tiny", "epochs": 1 if tiny else 20})
  config.networks["pgd-at"] = ConfigDict(
    {
      "arch": "cnn-tiny",
      "epochs": 1 if tiny else 30,
      "techniques": ("pgd-at",),
      "options": ConfigDict({"pgd-at": {"eps": "24/255", "num_steps": 3, "step_size": 2 / 3}}),
      "attack_warmup_epochs": 10,
    }
  )
  config.data = "digits32"
  config.suite = "basic" if tiny else "main"
  config.norm = "linf"
  config.eps = "16/255"
  config.n = 32 if tiny else 0
  config.out = "runs/tiny" if tiny else "runs/local"
  return config
