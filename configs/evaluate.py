"""Evaluates a classifier; the argument is the suite.

jaxrobust evaluate --config configs/evaluate.py:basic --model runs/local/models/pgd-at
jaxrobust evaluate --config configs/evaluate.py:oodrb,small --model runs/local/models/pgd-at --n 64
"""

from ml_collections import ConfigDict


def get_config(arg: str | None = "basic") -> ConfigDict:
  return ConfigDict({"suite": arg, "data": "digits32", "out": "results"})
