"""Techniques that keep a second set of weights, used wherever the network is evaluated or saved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from jaxrobust.core.errors import InputError
from jaxrobust.training.technique import TECHNIQUES, Averaging, Clock


@TECHNIQUES.register("ema")
@dataclass(frozen=True)
class EMA(Averaging):
  """average <- d average + (1 - d) weights after every update, batch statistics included.

  0.9998 in ARES-Bench, 0.9999 in RobustART; it starts at the first weights, so after t steps with fixed weights w the
  average is d^t w_0 + (1 - d^t) w.
  """

  decay: float = 0.9998

  def __post_init__(self) -> None:
    if not 0 <= self.decay < 1:
      raise InputError(f"the decay must be in [0, 1), got {self.decay}")

  def average(self, average: Any, weights: Any, clock: Clock) -> Any:
    moved = jax.tree.map(lambda old, new: self.decay * old + (1 - self.decay) * new, average, weights)
    if clock.updated is True:
      return moved
    return jax.tree.map(lambda old, new: jnp.where(clock.updated, new, old), average, moved)


@TECHNIQUES.register("swa")
@dataclass(frozen=True)
class SWA(Averaging):
  """The mean of the weights at the end of every `every` epochs, from `start` of the run on.

  Izmailov et al. 2018 (arXiv:1803.05407): from 0.75 of the budget, one set of weights per epoch, with a constant or
  cyclical rate. Until the first is collected the average is the weights themselves. Batch statistics do not average:
  before the network is evaluated or saved they are measured anew over `statistics` batches as the objective sees them.
  """

  start: float = 0.75
  every: float = 1.0
  statistics: int = 100

  def __post_init__(self) -> None:
    if not 0 <= self.start < 1:
      raise InputError(f"weights are averaged from a share of the run in [0, 1) on, got {self.start}")
    if not self.every > 0 or not self.statistics > 0:
      raise InputError(f"every and statistics must be positive, got {self.every} and {self.statistics}")

  def average(self, average: Any, weights: Any, clock: Clock) -> Any:
    period = max(1, round(self.every * clock.epoch))
    passed = clock.step + 1 - math.ceil(self.start * clock.total)
    count = passed // period
    # 1 while nothing is collected, 1 / n for the n-th set of weights, 0 between them.
    share = jnp.where(count < 1, 1.0, jnp.where(passed % period == 0, 1 / jnp.maximum(count, 1), 0.0))
    return jax.tree.map(lambda old, new: old + share * (new - old), average, weights)
