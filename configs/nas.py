"""Cells of NAS-Bench-201, trained and evaluated: `published` is the paper's protocol, `small` one for a CPU.

jaxrobust nas run --config configs/nas.py:published --cells all --out nas --index=3 --shares=64
jaxrobust nas run --config configs/nas.py:small --cells random-200 --data npz:cifar10_test.npz --out nas

  published   Dong & Yang 2020, table 1: C 16, N 5, SGD with Nesterov's momentum, 200 epochs, batch 256, cosine to 0;
              seed 777. Here normalizations do not decay, theirs do. Evaluated by all of arXiv:2306.06712
  small       C 8, N 1, one epoch; FGSM, PGD-4, APGD-5 and Square-20 at two budgets, four corruptions at two severities
  runlocal    a minute: the embedded digits, C 4
"""

from ml_collections import ConfigDict


def get_config(arg: str = "published") -> ConfigDict:
  """Returns the options of `jaxrobust nas run`."""
  config = ConfigDict()
  config.train = ConfigDict({"arch_options": {"width": 16, "depth": 5}})
  if arg == "published":
    config.suite = "nas-cell"
  elif arg == "small":
    config.suite = "nas-cell,small,generated"
    config.train.update({"arch_options": {"width": 8, "depth": 1}, "epochs": 1.0, "batch_size": 64})
  elif arg == "runlocal":
    config.suite, config.data, config.n = "nas-cell,small", "digits32", 32
    network = {"arch_options": {"width": 4, "depth": 1}, "data": "digits32-train"}
    config.train.update({**network, "epochs": 0.5, "batch_size": 32, "learning_rate": 0.05})
  else:
    raise ValueError(f"known: published, small, runlocal, not {arg}")
  return config
