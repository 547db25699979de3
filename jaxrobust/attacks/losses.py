"""What attacks climb: each loss takes one logit vector and grows as the attack succeeds.

With a target (>= 0) a loss grows toward the target, without one away from the label; the target is
traced, so one program serves both. The losses that need several classes check the static length of
the logits: JAX clamps indices that are out of range, so nothing else would notice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp

from jaxrobust.core.errors import InputError
from jaxrobust.core.largest import largest_value, value_at
from jaxrobust.core.registry import Registry
from jaxrobust.core.types import Array, Problem

LossFunction = Callable[[Array, Array, Array], Array]


@dataclass(frozen=True)
class LossSpec:
  """A loss with what it needs.

  Attributes:
    function: (logits, label, target) -> scalar to be raised.
    min_classes: the fewest classes for which it is defined.
    target: whether it ignores, allows or requires a target.
  """

  function: LossFunction
  min_classes: int
  target: Literal["ignored", "optional", "required"]


LOSSES: Registry[LossSpec] = Registry("loss")


def _loss(name: str, min_classes: int, target: Literal["ignored", "optional", "required"]) -> Callable:
  def add(function: LossFunction) -> LossFunction:
    LOSSES.register(name)(LossSpec(function, min_classes, target))
    return function

  return add


def check_loss(name: str, num_classes: int, has_target: bool) -> None:
  """Refuses a loss that is undefined for this many classes or this goal, before anything compiles."""
  spec = LOSSES[name]
  if num_classes < spec.min_classes:
    raise InputError(f"loss {name!r} needs at least {spec.min_classes} classes, the classifier has {num_classes}")
  if has_target and spec.target == "ignored":
    raise InputError(f"loss {name!r} cannot steer to a target; use 'ce', 'cw' or 'dlr-t'")
  if not has_target and spec.target == "required":
    remedy = "pass targets, or run it toward several classes in turn: autoattack does, and a cascade `apgd-t,targets=9`"
    raise InputError(f"loss {name!r} needs a target class: {remedy}")


def bind(name: str | Callable[[Array], Array], problem: Problem) -> Callable[[Array], Array]:
  """Returns the loss as a function of one image's logits alone; such a function passes through."""
  if not isinstance(name, str):
    return name
  spec = LOSSES[name]

  def loss(logits: Array) -> Array:
    if logits.shape[-1] < spec.min_classes:
      raise InputError(f"loss {name!r} needs at least {spec.min_classes} classes, got {logits.shape[-1]}")
    return spec.function(logits, problem.label, problem.target)

  return loss


def best_other(logits: Array, index: Array) -> Array:
  """Returns the largest logit but for `index`."""
  return largest_value(jnp.where(jnp.arange(logits.shape[-1]) == index, -jnp.inf, logits))


@_loss("ce", 2, "optional")
def cross_entropy(logits: Array, label: Array, target: Array) -> Array:
  """Returns -log softmax_y, or log softmax_t with a target.

  >>> z = jnp.array([2.0, 1.0, 0.0])
  >>> round(float(cross_entropy(z, 0, -1)), 4), round(float(cross_entropy(z, 0, 1)), 4)
  (0.4076, -1.4076)
  """
  # -log softmax_y = softplus(logsumexp of the others - z_y). Written so, its gradient has no 1 - softmax_y, which
  # cancels in float32 from margins of about 16 on and would look like gradient masking.
  away = jax.nn.softplus(_others(logits, label) - value_at(logits, label))
  toward = -jax.nn.softplus(_others(logits, target) - value_at(logits, target))
  return jnp.where(target >= 0, toward, away)


def _others(logits: Array, index: Array) -> Array:
  """Returns the log-sum-exp of all logits but for `index`."""
  return jax.nn.logsumexp(jnp.where(jnp.arange(logits.shape[-1]) == index, -jnp.inf, logits))


@_loss("margin", 2, "optional")
def margin(logits: Array, label: Array, target: Array) -> Array:
  """Returns max_{j≠y} z_j - z_y, or z_t - max_{j≠t} z_j with a target: positive on success."""
  away = best_other(logits, label) - value_at(logits, label)
  toward = value_at(logits, target) - best_other(logits, target)
  return jnp.where(target >= 0, toward, away)


@_loss("cw", 2, "optional")
def carlini_wagner(logits: Array, label: Array, target: Array, confidence: float = 0.0) -> Array:
  """Returns the margin, but no more than `confidence`: f6 of Carlini and Wagner 2017 (arXiv:1608.04644), negated."""
  # Not jnp.minimum, whose gradient asks which of both the smaller one equals; see `largest_value`.
  gain = margin(logits, label, target)
  return jnp.where(gain <= confidence, gain, confidence)


@_loss("margin-1", 2, "optional")
def margin_up_to_one(logits: Array, label: Array, target: Array) -> Array:
  """Returns the margin, but no more than 1: nothing pulls an image on that is wrong by that much (arXiv:2006.12655)."""
  return carlini_wagner(logits, label, target, confidence=1.0)


@_loss("dlr", 3, "ignored")
def dlr(logits: Array, label: Array, target: Array) -> Array:
  """Returns -(z_y - max_{j≠y} z_j) / (z_(1) - z_(3)), the difference of logits ratio; Croce and Hein, arXiv:2003.01690.

  >>> round(float(dlr(jnp.array([3.0, 1.0, 0.0]), 0, -1)), 4)
  -0.6667
  """
  del target
  top = jax.lax.top_k(logits, 3)[0]
  return (best_other(logits, label) - value_at(logits, label)) / (top[0] - top[2] + 1e-12)


@_loss("dlr-t", 4, "required")
def targeted_dlr(logits: Array, label: Array, target: Array) -> Array:
  """Returns -(z_y - z_t) / (z_(1) - (z_(3) + z_(4)) / 2), the targeted form of the same paper."""
  top = jax.lax.top_k(logits, 4)[0]
  return (value_at(logits, target) - value_at(logits, label)) / (top[0] - 0.5 * (top[2] + top[3]) + 1e-12)


@_loss("mm", 2, "required")
def minimum_margin(logits: Array, label: Array, target: Array) -> Array:
  """Returns z_t - z_y, the plain margin of one target class; Gao et al. 2022 (arXiv:2206.07314).

  >>> float(minimum_margin(jnp.array([3.0, 1.0, 0.0]), 0, 2))
  -3.0
  """
  return value_at(logits, target) - value_at(logits, label)


batched = functools.partial(jax.vmap, in_axes=(0, 0, 0))
"""`batched(loss)(logits, labels, targets)` for rows of logits: training and tests use the same losses."""
