"""Techniques that change what the network is asked to say: label smoothing and Mixup."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.training.technique import TECHNIQUES, Batch


@TECHNIQUES.register("label-smoothing")
@dataclass(frozen=True)
class LabelSmoothing:
  """targets <- (1 - a) targets + a / C; Szegedy et al. 2016 (arXiv:1512.00567); a = 0.1 in RobustART and ARES-Bench."""

  amount: float = 0.1

  def __post_init__(self) -> None:
    if not 0 <= self.amount < 1:
      raise InputError(f"label smoothing must be in [0, 1), got {self.amount}")

  def mix(self, batch: Batch, key: Array) -> Batch:
    del key
    classes = batch.targets.shape[-1]
    return batch._replace(targets=(1 - self.amount) * batch.targets + self.amount / classes)


@TECHNIQUES.register("mixup")
@dataclass(frozen=True)
class Mixup:
  """x <- w x + (1 - w) x', targets alike, w ~ Beta(alpha, alpha); Zhang et al. 2018 (arXiv:1710.09412).

  x' is the batch in reverse order and w one number per batch, as in timm; alpha 0.2 for RobustART, 0.8 for
  timm's recipes (ARES-Bench). Mixing with the reversed batch keeps partners on one device for most layouts.
  """

  alpha: float = 0.2

  def __post_init__(self) -> None:
    if not self.alpha > 0:
      raise InputError(f"mixup's alpha must be positive, got {self.alpha}")

  def mix(self, batch: Batch, key: Array) -> Batch:
    weight = jax.random.beta(key, self.alpha, self.alpha)
    blend = lambda x: weight * x + (1 - weight) * jnp.flip(x, axis=0)
    return batch._replace(images=blend(batch.images), targets=blend(batch.targets))
