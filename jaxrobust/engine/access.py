"""What an attack is handed as `model`: no more than the access that it declares.

  gradient  model(image) -> logits, which can be differentiated; of a defended classifier its adaptive view, which
            answers as the classifier does
  score     model(image) -> logits; differentiating them is an error
  decision  model(image) -> whether the goal is met, by the engine's own rule
An oracle of its own (an argmax, say) would let an attack end at points that the verification calls ties.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.gradients import ImageLogits
from jaxrobust.core.threefry import computed_once
from jaxrobust.core.types import Array, Problem
from jaxrobust.engine.success import CLAIM_RTOL, goal_met

# The model's own randomness is drawn from a stream beside the attack's, which owns `problem.key`.
_MODEL_STREAM = 0x6D6F64


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _values(attack: str, access: str, logits: Array) -> Array:
  return logits


@_values.defjvp
def _no_gradient(attack: str, access: str, primals: tuple, tangents: tuple) -> tuple[Array, Array]:
  del primals, tangents
  raise InputError(f"attack {attack} differentiates the model, but declares access {access!r}; declare 'gradient'")


class Scores:
  """Logits without their gradient."""

  def __init__(self, logits: ImageLogits, attack: str, access: str):
    self._logits, self._attack, self._access = logits, attack, access

  def __call__(self, image: Array, draw: Array | int = 0) -> Array:
    # An attack's arithmetic inside the network's first pass over the image is slower than both.
    return _values(self._attack, self._access, self._logits(computed_once(image), draw))

  def sampled(self, image: Array, draw: Array | int = 0) -> Array:
    """Returns one row of logits per random pass."""
    return _values(self._attack, self._access, self._logits.sampled(image, draw))


class Decisions:
  """Answers whether the goal is met at an image, and nothing else."""

  def __init__(self, scores: Scores, problem: Problem, targeted: Array | bool):
    self._scores, self._problem, self._targeted = scores, problem, targeted

  def __call__(self, image: Array, draw: Array | int = 0) -> Array:
    return _claimed(self._scores(image, draw), self._problem, self._targeted)


def model_for(
  attack: Any,
  access: str,
  classifier: Classifier,
  problem: Problem,
  targeted: Array | bool,
  step: Array | int,
  samples: int = 1,
) -> Callable:
  """Returns the model as one step of an attack may see it; every query of a randomized classifier draws anew."""
  key = problem.key
  if classifier.randomized:
    key = jax.random.fold_in(jax.random.fold_in(key, _MODEL_STREAM), step)
  if access == "gradient":
    return ImageLogits(classifier.adaptive_view, key, samples)
  scores = Scores(ImageLogits(classifier, key, samples), type(attack).__name__, access)
  return scores if access == "score" else Decisions(scores, problem, targeted)


def answer_met(access: str, answer: Array, problem: Problem, targeted: Array | bool) -> Array:
  """Returns whether what a probe reports of its point is a success."""
  if access == "decision":
    return jnp.asarray(answer, bool)
  return _claimed(answer, problem, targeted)


def _claimed(logits: Array, problem: Problem, targeted: Array | bool) -> Array:
  return goal_met(logits, problem.label, problem.target, targeted, CLAIM_RTOL)
