"""Optimizers and learning-rate schedules by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from jaxrobust.core.registry import Registry

# Which parameters decay, as a function of all of them.
Mask = Callable[[Any], Any]
OPTIMIZERS: Registry[Callable[[optax.Schedule, float, Mask], optax.GradientTransformation]] = Registry("optimizer")
SCHEDULES: Registry[Callable[[float, int], optax.Schedule]] = Registry("schedule")


# As timm and Swin's authors leave them out: places and tokens are not weights of a sum.
_UNDECAYED = ("pos_embed", "cls_token", "mask_token", "relative_position_bias_table")


def decays(params: Any) -> Any:
  """Returns which parameters decay: matrices and kernels; biases, normalization scales and embeddings do not."""
  last = lambda path: getattr(path[-1], "key", None)
  return jax.tree_util.tree_map_with_path(lambda path, leaf: leaf.ndim > 1 and last(path) not in _UNDECAYED, params)


def decays_all(params: Any) -> Any:
  """Returns that every parameter decays, as where an optimizer is handed all of a network and told nothing else."""
  return jax.tree.map(lambda leaf: True, params)


DECAYS: dict[str, Mask] = {"weights": decays, "all": decays_all}


@OPTIMIZERS.register("sgd")
def sgd(schedule: optax.Schedule, weight_decay: float, mask: Mask) -> optax.GradientTransformation:
  """Nesterov momentum 0.9 with l2 regularization, as torch.optim.SGD couples it: decay enters the momentum."""
  return optax.chain(
    optax.add_decayed_weights(weight_decay, mask=mask), optax.sgd(schedule, momentum=0.9, nesterov=True)
  )


@OPTIMIZERS.register("momentum")
def momentum(schedule: optax.Schedule, weight_decay: float, mask: Mask) -> optax.GradientTransformation:
  """The same with plain momentum 0.9, without Nesterov's look ahead."""
  return optax.chain(optax.add_decayed_weights(weight_decay, mask=mask), optax.sgd(schedule, momentum=0.9))


@OPTIMIZERS.register("adamw")
def adamw(schedule: optax.Schedule, weight_decay: float, mask: Mask) -> optax.GradientTransformation:
  """Adam with decoupled decay."""
  return optax.adamw(schedule, weight_decay=weight_decay, mask=mask)


@SCHEDULES.register("cosine")
def cosine(peak: float, steps: int) -> optax.Schedule:
  """Half a cosine from the peak to zero."""
  return optax.cosine_decay_schedule(peak, steps)


@SCHEDULES.register("step")
def step(peak: float, steps: int) -> optax.Schedule:
  """Multiplies the rate by a tenth after half and after three quarters of the run."""
  return optax.piecewise_constant_schedule(peak, {steps // 2: 0.1, steps * 3 // 4: 0.1})


@SCHEDULES.register("step-30")
def step_30(peak: float, steps: int) -> optax.Schedule:
  """Multiplies by a tenth after 30, 60 and 90 of 95 epochs, the first 5 warm-up; ARES-Bench (arXiv:2302.14301)."""
  return optax.piecewise_constant_schedule(peak, {steps * epoch // 90: 0.1 for epoch in (25, 55, 85)})


@SCHEDULES.register("cyclic")
def cyclic(peak: float, steps: int) -> optax.Schedule:
  """Linearly up for two fifths of the run and down to zero; Wong et al. 2020 (arXiv:2001.03994)."""
  up = max(1, steps * 2 // 5)
  return optax.join_schedules(
    [optax.linear_schedule(0.0, peak, up), optax.linear_schedule(peak, 0.0, max(1, steps - up))], [up]
  )


@SCHEDULES.register("constant")
def constant(peak: float, steps: int) -> optax.Schedule:
  """Keeps the peak throughout."""
  del steps
  return optax.constant_schedule(peak)


def make_optimizer(
  name: str,
  schedule: str,
  *,
  learning_rate: float,
  weight_decay: float,
  updates: int,
  warmup: int,
  clip: float = 0.0,
  accumulate: int = 1,
  first_rate: float = 0.0,
  last_rate: float = 0.0,
  decay: str = "weights",
) -> optax.GradientTransformation:
  """Builds the optimizer of a run of `updates` updates, the first `warmup` of which raise the rate linearly.

  Args:
    name, schedule: registered.
    learning_rate: the largest one.
    weight_decay: of the optimizer.
    updates: of the whole run.
    warmup: updates that raise the rate.
    clip: the largest global gradient norm; 0 for none.
    accumulate: batches whose gradients are averaged into one update.
    first_rate: where the warm-up begins; 0 for a rise from nothing.
    last_rate: what the schedule ends with: half a cosine ends there, others never fall below it.
    decay: which parameters decay, a name of `DECAYS`.
  """
  rate = make_schedule(schedule, learning_rate, max(1, updates - warmup), last_rate)
  if warmup:
    first = first_rate or learning_rate / warmup
    rate = optax.join_schedules([optax.linear_schedule(first, learning_rate, warmup), rate], [warmup])
  transform = OPTIMIZERS[name](rate, weight_decay, DECAYS[decay])
  if clip:
    transform = optax.chain(optax.clip_by_global_norm(clip), transform)
  if accumulate > 1:
    multi = optax.MultiSteps(transform, accumulate)
    return optax.GradientTransformation(multi.init, multi.update)
  return transform


def make_schedule(name: str, peak: float, steps: int, last: float = 0.0) -> optax.Schedule:
  """Returns a schedule that ends with, or never falls below, its last rate.

  >>> rate = make_schedule("cosine", 1.0, 10, 0.25)
  >>> [round(float(rate(step)), 3) for step in (0, 5, 10)]
  [1.0, 0.625, 0.25]
  """
  plain = SCHEDULES[name](peak, steps)
  if not last:
    return plain
  if name == "cosine":
    return optax.cosine_decay_schedule(peak, steps, alpha=last / peak)
  return lambda step: jnp.maximum(plain(step), last)
