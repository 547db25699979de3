"""`jaxrobust certify --model DIR --data cifar10 --eps 2/255 --method crown`."""

from __future__ import annotations

from jaxrobust.cli.configuration import check_model, parse
from jaxrobust.core.compilation import enable_compilation_cache

DEFAULTS = {
  "model": "",
  "name": "",
  "data": "digits32",
  "method": "crown",
  "norm": "linf",
  "eps": "2/255",
  "search": True,
  "sigma": 0.25,
  "n0": 100,
  "samples": 100_000,
  "alpha": 0.001,
  "n": 0,
  "seed": 0,
  "preprocess": "",
  "precision": "highest",
  "save_seconds": 60.0,
  "out": "results",
  "quiet": False,
}


def run(argv: list[str]) -> int:
  config = parse("certify", argv, DEFAULTS, "what no attack can do: certified accuracy and radii, as a cell on disk")
  check_model(config.model)
  enable_compilation_cache()
  from pathlib import Path

  from jaxrobust.certify.smoothing import Smoothing
  from jaxrobust.core.progress import show_all
  from jaxrobust.data.registry import load_data
  from jaxrobust.defenses.stored import load_classifier
  from jaxrobust.evaluation.certify_data import SMOOTHING, certify_data
  from jaxrobust.evaluation.context import ModelContext
  from jaxrobust.evaluation.job import RunOptions
  from jaxrobust.evaluation.preprocess import model_preprocessing
  from jaxrobust.evaluation.provenance import about_model
  from jaxrobust.results import check_writable

  classifier = load_classifier(config.model)
  data = load_data(config.data, preprocess=config.preprocess or model_preprocessing(config.model))
  data = data.subset(config.n) if config.n else data
  smoothing = None
  if config.method == SMOOTHING:
    smoothing = Smoothing(config.sigma, config.n0, config.samples, config.alpha, config.seed)
  check_writable(config.out)
  name = config.name or Path(config.model).name
  options = RunOptions(seed=config.seed, precision=config.precision, save_seconds=config.save_seconds)
  context = ModelContext(classifier, about_model(config.model, classifier))
  with show_all(name, quiet=config.quiet) as show:
    result = certify_data(
      context,
      name,
      data,
      config.eps,
      config.out,
      options,
      norm=config.norm,
      method=config.method,
      search=config.search,
      smoothing=smoothing,
      progress=lambda done, text="": show(done, text or "certificates"),
    )
  summary = result.summary
  radius = summary["median_certified_radius"]
  sure = f", each with probability {1 - config.alpha:g}" if smoothing else ""
  print(
    f"{result.cell.model} on {data.name}: {100 * summary['accuracy']:.2f} % right,"
    f" {100 * summary['robust_accuracy']:.2f} % certified at {result.cell.id}{sure};"
    f" median certified radius {'none' if radius is None else f'{radius:.4g}'}"
  )
  print(f"the cell is in {config.out}")
  return 0
