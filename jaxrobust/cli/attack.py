"""`jaxrobust attack --model DIR --data digits32 --attack pgd --eps 8/255 --out adversarial.npz`."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ml_collections import ConfigDict

from jaxrobust.cli.configuration import attack_options, check_model, parse
from jaxrobust.core.compilation import enable_compilation_cache
from jaxrobust.core.errors import InputError, StorageError

if TYPE_CHECKING:
  from jaxrobust.core.classifier import Classifier
  from jaxrobust.engine.api import AttackResult

DEFAULTS = {
  "model": "",
  "data": "digits32",
  "attack": "pgd",
  "options": ConfigDict(),
  "eps": "",
  "n": 0,
  "seed": 0,
  "defense": "",
  "oblivious": "",
  "restarts": 1,
  "targets": "",
  "batch_size": 0,
  "out": "adversarial.npz",
  "quiet": False,
}
# The usual budgets of CIFAR-10 (RobustBench; AutoAttack's for l1), for attacks within one.
USUAL_EPS = {"linf": "8/255", "l2": "0.5", "l1": "12"}


# Totals, and what is kept for budgets that this command does not ask for.
_NOT_SAVED = ("stats", "reached_step", "reached_query")


def run(argv: list[str]) -> int:
  config = parse("attack", argv, DEFAULTS, "adversarial images for a data set, written to an npz file")
  check_model(config.model)
  enable_compilation_cache()
  from jaxrobust.attacks.registry import make_attack
  from jaxrobust.core.progress import show
  from jaxrobust.data.registry import load_data
  from jaxrobust.defenses.stored import load_classifier
  from jaxrobust.engine.api import attack_images
  from jaxrobust.evaluation.attack_job import start_pool
  from jaxrobust.evaluation.preprocess import model_preprocessing
  from jaxrobust.results import atomic_write, check_writable

  attack = make_attack(config.attack, **attack_options(config))
  eps = _budget(attack, config.eps)
  data = load_data(config.data, preprocess=model_preprocessing(config.model))
  data = data.subset(config.n) if config.n else data
  out = Path(config.out)
  if out.is_dir():
    raise StorageError(f"cannot write {out}: it is a folder; name a file in it")
  check_writable(out.parent)
  classifier = _defended(load_classifier(config.model, config.defense), config.oblivious)
  images, labels = data.take(np.arange(len(data)))
  threat = f"{_threat(attack)} {config.attack} {f'at eps {eps}' if eps else 'without a budget'}"
  with show(threat, len(images), quiet=config.quiet) as meter:
    result = attack_images(
      attack,
      classifier,
      images,
      labels,
      eps=eps,
      targets=_targets(config.targets, labels, classifier.num_classes, config.seed),
      seed=config.seed,
      restarts=config.restarts,
      samples=1 if config.oblivious else None,
      batch_size=config.batch_size or None,
      starts=start_pool(data, images.shape[1:]),
      progress=lambda stats: meter(stats.examples),
    )
  buffer = io.BytesIO()
  np.savez_compressed(
    buffer, labels=labels, **{key: value for key, value in result._asdict().items() if key not in _NOT_SAVED}
  )
  atomic_write(out, buffer.getvalue())
  print(f"{threat}: {_verdict(attack, result)}; images are in {out}")
  return 0


def _defended(classifier: Classifier, oblivious: str) -> Classifier:
  """Returns the classifier as attacks get to see it: with the gradient that knows of its defense, or the naive one."""
  from jaxrobust.core.defense import ways_to_ignore

  if oblivious not in ("", "gradient"):
    raise InputError(f"oblivious is gradient or empty, got {oblivious!r}; evaluate has images too")
  if oblivious and oblivious not in ways_to_ignore(classifier):
    raise InputError("the classifier has no defense whose naive gradient is another one; leave --oblivious out")
  return classifier.naive if oblivious else classifier


def _budget(attack: Any, asked: str) -> str | None:
  """Returns what is asked for, or else no budget for minimal attacks and the usual one of the norm for others."""
  if asked or attack.minimal:
    return asked or None
  if _threat(attack) not in USUAL_EPS:
    raise InputError(f"{_threat(attack)} has no usual budget: pass --eps")
  return USUAL_EPS[_threat(attack)]


def _threat(attack: Any) -> str:
  from jaxrobust.attacks.schedule import as_schedule

  return as_schedule(attack).stages[0].attack.threat.name


def _verdict(attack: Any, result: AttackResult) -> str:
  """Returns shares and, of minimal attacks, the median distance of images once right; infinite where most stand."""
  shares = f"{result.correct.mean():.2%} correct, {result.robust.mean():.2%} robust"
  if not attack.minimal or not result.correct.any():
    return shares
  median = np.median(result.distance[result.correct])
  return f"{shares}, {'no distance' if np.isnan(median) else f'median distance {median:.4g}'}"


def _targets(rule: str, labels: np.ndarray, num_classes: int, seed: int) -> np.ndarray | None:
  """Returns no targets, random wrong classes as suites have them, the next class, or one class for all."""
  if not rule:
    return None
  if rule == "random":
    from jaxrobust.evaluation.targets import random_targets

    return random_targets(seed, np.arange(len(labels)), labels, num_classes)
  if rule == "next":
    return (labels + 1) % num_classes
  if rule.isdigit():
    return np.full(len(labels), int(rule))
  raise InputError(f"targets {rule!r} are not known; use 'random', 'next' or a class number")
