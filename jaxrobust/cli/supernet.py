"""`jaxrobust nas supernet`: trains a supernet, judges its subnets, and says which factors go with robustness.

jaxrobust nas supernet --space=small-resnet-basic --data=cifar10 --train.data=cifar10-train --out=supernets/basic
jaxrobust nas supernet --space=small-mobilenetv3 --show=supernets/basic --out=supernets/mobile
"""

from __future__ import annotations

import sys
from pathlib import Path

from jaxrobust.cli.configuration import parse
from jaxrobust.core.budget import Budget
from jaxrobust.core.compilation import enable_compilation_cache
from jaxrobust.core.errors import InputError
from jaxrobust.core.stopping import StopRequest

# RobustART's numbers of subnets; the training is a small one.
SUPERNET = {
  "space": "small-resnet-basic",
  "data": "cifar10",
  "n": 1000,
  "eps": "2/255",
  "subnets": 200,
  "each": 50,
  "calibration": 512,
  "train": {"data": "cifar10-train", "steps": 1000, "batch_size": 64, "learning_rate": 0.1, "save_every": 500},
  "seed": 0,
  "show": (),
  "out": "supernet",
  "quiet": False,
}


def run_supernet(argv: list[str], usage: str) -> int:
  config = parse("nas", argv, SUPERNET, usage)
  enable_compilation_cache()
  from jaxrobust.data.registry import load_data
  from jaxrobust.nas.supernets.run import SupernetStudy, read_rows
  from jaxrobust.nas.supernets.training import SupernetRecipe
  from jaxrobust.report.nas.documents import study_names, write_factors

  recipe = config.train.to_dict()
  source = recipe.pop("data")
  study = SupernetStudy(
    config.space,
    SupernetRecipe(seed=config.seed, **recipe),
    Budget.parse(config.eps, "linf").value,
    config.subnets,
    config.each,
    config.calibration,
    config.seed,
  )
  others = [read_rows(folder) for folder in config.show]
  for folder, known in zip(config.show, others, strict=True):
    if not known:
      raise InputError(f"no judged subnets of a supernet in {folder}")
  train, data = load_data(source), load_data(config.data)
  data = data.subset(config.n) if config.n else data
  rows = []
  with StopRequest() as stop:
    for row in study.run(train, data, config.out):
      rows.append(row)
      if not config.quiet:
        print(f"[{len(rows)}] {row.group}: clean {row.clean:.3f}, robust {row.robust:.3f}", file=sys.stderr, flush=True)
      if stop.asked:
        raise stop.error(f"after {len(rows)} subnets")
  title = f"Pearson's r of factors and accuracies of subnets, FGSM at {config.eps}"
  names = study_names((*config.show, config.out))
  write_factors(dict(zip(names, (*others, rows), strict=True)), title, Path(config.out))
  print((Path(config.out) / "factors.md").read_text("utf-8"))
  return 0
