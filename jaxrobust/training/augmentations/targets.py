"""Techniques that change what the network is asked to say: label smoothing, Mixup and CutMix."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.training.augmentations.erasing import box
from jaxrobust.training.technique import TECHNIQUES, Batch, Mixing


@TECHNIQUES.register("label-smoothing")
@dataclass(frozen=True)
class LabelSmoothing(Mixing):
  """targets <- (1 - a) targets + a / C; Szegedy et al. 2016 (arXiv:1512.00567); a = 0.1 in RobustART and ARES-Bench.

  With `others` the share a goes to the other classes alone, a / (C - 1) each, as RobustART writes it (appendix C).
  """

  amount: float = 0.1
  others: bool = False

  def __post_init__(self) -> None:
    if not 0 <= self.amount < 1:
      raise InputError(f"label smoothing must be in [0, 1), got {self.amount}")

  def mix(self, batch: Batch, key: Array) -> Batch:
    del key
    classes = batch.targets.shape[-1]
    rest = (1 - batch.targets) / (classes - 1) if self.others else 1 / classes
    return batch._replace(targets=(1 - self.amount) * batch.targets + self.amount * rest)


@TECHNIQUES.register("mixup")
@dataclass(frozen=True)
class Mixup(Mixing):
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


@TECHNIQUES.register("cutmix")
@dataclass(frozen=True)
class CutMix(Mixing):
  """A box of each image comes from another, targets mixed by area; Yun et al. 2019 (arXiv:1905.04899).

  The box covers 1 - w of the image, w ~ Beta(alpha, alpha), around an even random center, and is cut at the border;
  targets follow the area that is left. alpha 1, `probability` 0.5 on CIFAR-10 and 1 on ImageNet. Every example has a
  box of its own (the authors: one for the batch); partners are those of Mixup.
  """

  alpha: float = 1.0
  probability: float = 1.0

  def __post_init__(self) -> None:
    if not self.alpha > 0:
      raise InputError(f"cutmix's alpha must be positive, got {self.alpha}")
    if not 0 <= self.probability <= 1:
      raise InputError(f"the probability must be in [0, 1], got {self.probability}")

  def mix(self, batch: Batch, key: Array) -> Batch:
    del key
    inside = jax.vmap(lambda k: self._box(batch.images.shape[1:], k))(batch.keys)
    images = jnp.where(inside, jnp.flip(batch.images, axis=0), batch.images)
    taken = jnp.mean(inside, axis=(1, 2, 3))[:, None]
    targets = (1 - taken) * batch.targets + taken * jnp.flip(batch.targets, axis=0)
    return batch._replace(images=images, targets=targets)

  def _box(self, shape: tuple[int, ...], key: Array) -> Array:
    # The example's key served its augmentations already.
    weight_key, place_key, apply_key = jax.random.split(jax.random.fold_in(key, 0x6375746D), 3)
    weight = jax.random.beta(weight_key, self.alpha, self.alpha)
    size = jnp.asarray(shape[:2], jnp.float32)
    sides = jnp.floor(size * jnp.sqrt(1 - weight))
    start = jnp.floor(jax.random.uniform(place_key, (2,)) * size) - jnp.floor(sides / 2)
    apply = jax.random.bernoulli(apply_key, self.probability)
    return box(shape, start[0], start[1], sides[0], sides[1]) & apply
