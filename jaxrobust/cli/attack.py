"""`jaxrobust attack --model DIR --data digits32 --attack pgd --eps 8/255 --out adversarial.npz`."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from jaxrobust.cli.configuration import parse
from jaxrobust.core.compilation import enable_compilation_cache
from jaxrobust.core.errors import InputError

DEFAULTS = {
  "model": "",
  "data": "digits32",
  "attack": "pgd",
  "options": {"norm": "linf"},
  "eps": "8/255",
  "n": 0,
  "seed": 0,
  "restarts": 1,
  "targets": "",
  "batch_size": 0,
  "out": "adversarial.npz",
  "quiet": False,
}


def run(argv: list[str]) -> int:
  config = parse("attack", argv, DEFAULTS, "adversarial images for a data set, written to an npz file")
  if not config.model:
    raise InputError("no model; pass --model=FOLDER of a trained classifier")
  enable_compilation_cache()
  from jaxrobust.attacks.registry import make_attack
  from jaxrobust.core.progress import show
  from jaxrobust.data.registry import load_data
  from jaxrobust.engine.api import attack_images
  from jaxrobust.models.zoo import load_classifier
  from jaxrobust.results import atomic_write, check_writable

  attack = make_attack(config.attack, **dict(config.options))
  data = load_data(config.data)
  data = data.subset(config.n) if config.n else data
  out = Path(config.out)
  check_writable(out.parent)
  classifier = load_classifier(config.model)
  images, labels = data.take(np.arange(len(data)))
  with show(f"{config.attack}@{config.eps}", len(images), quiet=config.quiet) as meter:
    result = attack_images(
      attack,
      classifier,
      images,
      labels,
      eps=config.eps or None,
      targets=_targets(config.targets, labels, classifier.num_classes),
      seed=config.seed,
      restarts=config.restarts,
      batch_size=config.batch_size or None,
      progress=lambda stats: meter(stats.examples),
    )
  buffer = io.BytesIO()
  np.savez_compressed(
    buffer, labels=labels, **{key: value for key, value in result._asdict().items() if key != "stats"}
  )
  atomic_write(out, buffer.getvalue())
  print(f"{result.correct.mean():.2%} correct, {result.robust.mean():.2%} robust; images are in {out}")
  return 0


def _targets(rule: str, labels: np.ndarray, num_classes: int) -> np.ndarray | None:
  """No targets, the next class, or one class for all."""
  if not rule:
    return None
  if rule == "next":
    return (labels + 1) % num_classes
  if rule.isdigit():
    return np.full(len(labels), int(rule))
  raise InputError(f"targets {rule!r} are not known; use 'next' or a class number")
