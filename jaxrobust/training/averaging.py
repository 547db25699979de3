"""Techniques that keep a second set of weights, used wherever the network is evaluated or saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.training.technique import TECHNIQUES


@TECHNIQUES.register("ema")
@dataclass(frozen=True)
class EMA:
  """average <- d average + (1 - d) weights after every update, batch statistics included.

  0.9998 in ARES-Bench, 0.9999 in RobustART; it starts at the first weights, so after t steps with fixed weights w the
  average is d^t w_0 + (1 - d^t) w.
  """

  decay: float = 0.9998

  def __post_init__(self) -> None:
    if not 0 <= self.decay < 1:
      raise InputError(f"the decay must be in [0, 1), got {self.decay}")

  def average(self, average: Any, weights: Any, step: Array) -> Any:
    del step
    return jax.tree.map(lambda old, new: self.decay * old + (1 - self.decay) * new, average, weights)
