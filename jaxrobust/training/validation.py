"""Accuracy on held-out examples during training, clean and under attack, and what its course gives away."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks.pgd import PGD
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.types import Array, Attack
from jaxrobust.training.adversarial import craft

BATCH = 250
# One-step training that breaks down loses its robustness to PGD within an epoch while its own attack seems beaten.
COLLAPSE = 0.5
COLLAPSE_GAP = 0.15


class Score(NamedTuple):
  """Fractions of the held-out examples."""

  clean: float
  robust: float


@functools.partial(jax.jit, static_argnums=0)
def _correct(attack: Attack | None, classifier: Classifier, images: Array, labels: Array, eps: Array) -> Array:
  right = jnp.argmax(classifier(images), -1) == labels
  if attack is None:
    return jnp.stack([right, right])
  targets = jax.nn.one_hot(labels, classifier.num_classes)
  keys = jax.random.split(jax.random.key(0), len(labels))
  crafted = craft(attack, classifier, images, targets, eps, keys)
  return jnp.stack([right, right & (jnp.argmax(classifier(crafted), -1) == labels)])


def validate(
  objective: Any,
  classifier: Classifier,
  images: np.ndarray,
  labels: np.ndarray,
  steps: int,
  stopping: Callable[[], bool] = lambda: False,
) -> Score | None:
  """Clean accuracy, and accuracy under PGD with the budget that is trained for; None if asked to stop halfway."""
  budget = getattr(objective, "budget", 0.0)
  attack = PGD(objective.norm, num_steps=steps) if budget else None
  total = np.zeros(2)
  for start in range(0, len(labels), BATCH):
    if stopping():
      return None
    # Padded with label -1, which nothing can match: one program for all batches.
    rows = np.arange(start, start + BATCH)
    inside = rows < len(labels)
    safe = np.minimum(rows, len(labels) - 1)
    wanted = np.where(inside, labels[safe], -1)
    total += np.asarray(_correct(attack, classifier, images[safe], wanted, np.float32(budget))).sum(1)
  return Score(*(total / len(labels)).tolist())


def overfitted(scores: list[Score], training_accuracy: float) -> str | None:
  """Names catastrophic overfitting (Wong et al. 2020): PGD accuracy halves while training accuracy soars.

  >>> overfitted([Score(0.6, 0.3), Score(0.7, 0.02)], 0.8)
  'catastrophic overfitting: accuracy under PGD fell from 0.300 to 0.020 while the training attack is beaten (0.800)'
  >>> overfitted([Score(0.6, 0.3), Score(0.65, 0.31)], 0.4) is None
  True
  """
  if len(scores) < 2:
    return None
  best, now = max(score.robust for score in scores[:-1]), scores[-1].robust
  if now < COLLAPSE * best and training_accuracy > now + COLLAPSE_GAP:
    return (
      f"catastrophic overfitting: accuracy under PGD fell from {best:.3f} to {now:.3f} while the training attack"
      f" is beaten ({training_accuracy:.3f})"
    )
  return None
