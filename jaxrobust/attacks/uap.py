"""Universal adversarial perturbation: one perturbation v for all images, trained before it is shown.

  v <- P(v + alpha · eps · steepest(mean over a batch of ∇ min(CE(f(x + v), y), 9)))          (`engine.universal.fit`)

The rule is Shafahi et al. 2020 (arXiv:1811.11304), with their clipped loss: a few images that are very wrong would
decide alone otherwise. The aim is Moosavi-Dezfooli et al. 2017 (arXiv:1610.08401): to change as many predictions as
possible, the fooling rate, on images it was not trained on. Norms linf, l2; untargeted and targeted.

Defaults: 10 passes over the images in batches of 100, alpha 0.1 with signed steps (theirs are SGD and Adam as well).
Known deviation: Moosavi-Dezfooli et al. add DeepFool's perturbations one image after the other: nothing to batch.
v is bounded by one half in every value, which no budget in use reaches.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks import norms
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.core.budget import check_norm
from jaxrobust.core.errors import InputError
from jaxrobust.core.threat import by_norm
from jaxrobust.core.types import Array, Cost, LogitsFn, Probe, Problem


class SharedPerturbation:
  """An array that can be hashed, by what is in it.

  >>> SharedPerturbation(np.zeros((2, 2, 1))) == SharedPerturbation(np.zeros((2, 2, 1)))
  True
  """

  def __init__(self, values: np.ndarray):
    self.values = np.asarray(values, np.float32)
    self.digest = hashlib.sha256(self.values.tobytes() + str(self.values.shape).encode()).hexdigest()

  def __hash__(self) -> int:
    return hash(self.digest)

  def __eq__(self, other: object) -> bool:
    return isinstance(other, SharedPerturbation) and self.digest == other.digest

  def config(self) -> dict[str, Any]:
    """Returns nothing: what it was trained with decides it."""
    return {}


@dataclass(frozen=True)
class UAP:
  """One perturbation for all images, trained on some of them.

  Attributes:
    images: that it is trained on at the most.
    epochs, batch: passes over them, and how many count for one step.
    step_size: of one step, in eps.
    perturbation: what training found; None before.
  """

  norm: str = "linf"
  images: int = 500
  epochs: int = 10
  batch: int = 100
  step_size: float = 0.1
  loss: str = "ce"
  perturbation: SharedPerturbation | None = None
  name = "uap"
  num_steps = 1
  threat = by_norm
  minimal = False
  access = "score"
  cost = Cost(1, 0)
  pieces: ClassVar[tuple[str, ...]] = ("perturbation",)

  def __post_init__(self) -> None:
    check_norm(self.norm, ("linf", "l2"))

  def init(self, problem: Problem) -> Array:
    if self.perturbation is None:
      raise InputError("uap is trained before it is shown: use `jaxrobust transfer`, or engine.universal.fit")
    image = problem.image
    return norms.project(self.norm, image + jnp.asarray(self.perturbation.values), image, problem.eps)

  def step(self, model: LogitsFn, problem: Problem, state: Array) -> tuple[Array, Probe]:
    del problem
    return state, Probe(state, model(state), queries=1)

  def candidate(self, problem: Problem, state: Array) -> Array:
    del problem
    return state


@ATTACKS.register("uap")
def universal(
  norm: str = "linf", images: int = 500, epochs: int = 10, batch: int = 100, step_size: float = 0.1, loss: str = "ce"
) -> UAP:
  """One perturbation for all images, trained on some of them before it is shown."""
  return UAP(norm, images, epochs, batch, step_size, loss)
