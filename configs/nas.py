"""Cells of NAS-Bench-201, trained and evaluated: `published` is the paper's protocol, `small` one for a CPU.

jaxrobust nas run --config configs/nas.py:published --cells all --out nas --index=3 --shares=64
jaxrobust nas run --config configs/nas.py:small --cells random-200 --data npz:cifar10_test.npz --out nas

  published   Dong & Yang 2020, table 1: C 16, N 5, SGD with Nesterov's momentum, 200 epochs, batch 256, cosine to 0,
              5e-4 of decay on all parameters; seed 777. Evaluated by all of arXiv:2306.06712. published-cifar100 and
              published-imagenet16-120 are the same on these, with their own normalization and crop
  small       C 8, N 1, one epoch; FGSM, PGD-4, APGD-5 and Square-20 at two budgets, four corruptions at two severities
  runlocal    a minute: the embedded digits, C 4
"""

from ml_collections import ConfigDict

# The benchmark's data sets, and what their training images need beside CIFAR's: crops of an eighth of 16 pixels.
PUBLISHED = {"cifar10": {}, "cifar100": {}, "imagenet16-120": {"pad-crop-flip": {"padding": 2}}}


def get_config(arg: str = "published") -> ConfigDict:
  """Returns the options of `jaxrobust nas run`."""
  config = ConfigDict()
  config.train = ConfigDict({"arch_options": {"width": 16, "depth": 5}})
  kind, _, data = arg.partition("-")
  if kind == "published" and data in ("", *PUBLISHED):
    config.suite, config.data = "nas-cell", data or "cifar10"
    config.train.update({"data": f"{config.data}-train", "options": PUBLISHED[config.data]})
  elif arg == "small":
    config.suite = "nas-cell,small,generated"
    config.train.update({"arch_options": {"width": 8, "depth": 1}, "epochs": 1.0, "batch_size": 64})
  elif arg == "runlocal":
    config.suite, config.data, config.n = "nas-cell,small", "digits32", 32
    network = {"arch_options": {"width": 4, "depth": 1}, "data": "digits32-train"}
    config.train.update({**network, "epochs": 0.5, "batch_size": 32, "learning_rate": 0.05})
  else:
    raise ValueError(f"known: published, published-cifar100, published-imagenet16-120, small, runlocal, not {arg}")
  return config
