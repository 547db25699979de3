"""A study for `jaxrobust study run` that is over in seconds: two runs, the second starts from the first."""

from ml_collections import ConfigDict


def get_config(arg: str = "") -> ConfigDict:
  """Returns the runs, and how they are judged."""
  del arg
  rows = []
  for name, change in (("plain", {}), ("tuned", {"init": "{models}/plain", "learning_rate": 0.01})):
    row = {"name": name, "group": name, "against": "", "base": "", "add": (), "drop": (), "judged": True, "options": {}}
    short = {"arch": "cnn-tiny", "epochs": 0.3, "batch_size": 64, "save_every": 2}
    rows.append(ConfigDict({**row, "change": {**short, **change}}))
  judging = {"data": "digits32", "eps": "16/255", "corruptions": ("fog", "contrast"), "severities": (1,)}
  return ConfigDict({"study": "assault", "runs": tuple(rows), "evaluation": judging})
