"""Attacks on what an image is rendered from: Adam on a witness, with a penalty on its roughness.

  w_0     = P(0)
  w_{k+1} = P(Adam(w_k, -grad m(render(x, w_k)) + (weight / b) grad roughness(w_k)))

w is an offset from the identity (a flow field, a color table), P the projection of its threat into the budget b, m the
margin max_{j≠y} z_j - z_y. The gradient is that at the projected witness, whatever the projection did. Source:
mister_ed and ReColorAdv (Laidlaw and Feizi 2019, arXiv:1906.00001), as perceptual-advex 0.2.6 uses them.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrobust.attacks import losses
from jaxrobust.core.gradients import loss_and_grad
from jaxrobust.core.threat import Threat
from jaxrobust.core.types import Array, LogitsFn, Probe, Problem

BETA1, BETA2, TINY = 0.9, 0.999, 1e-8


class WitnessThreat(Threat):
  """A threat whose witness is an offset from the identity, measured by its largest entry."""

  witnessed = True

  def identity(self, image: Array) -> Array:
    """Returns the witness of an image as it is: zeros."""
    raise NotImplementedError

  def project(self, image: Array, witness: Array, eps: Array) -> Array:
    """Returns the nearest witness that is allowed within a budget."""
    raise NotImplementedError

  def distance(self, original: Array, image: Array, witness: Any = None) -> Array:
    del original, image
    return jnp.max(jnp.abs(witness))


def unchanged_at_zero(original: Array, rendered: Array, witness: Array) -> Array:
  """Returns what was rendered, or the very image where the witness is zero; the gradient is that of the rendering."""
  return rendered + jax.lax.stop_gradient(jnp.where(jnp.any(witness != 0), 0.0, original - rendered))


class AdamState(NamedTuple):
  """The witness to evaluate next, Adam's two means, and the number of steps made."""

  witness: Array
  mean: Array
  square: Array
  step: Array


def start(threat: WitnessThreat, problem: Problem) -> AdamState:
  """Returns the state before the first step."""
  witness = threat.project(problem.image, threat.identity(problem.image), problem.eps)
  return AdamState(witness, jnp.zeros_like(witness), jnp.zeros_like(witness), jnp.zeros((), jnp.int32))


def descend(
  threat: WitnessThreat,
  loss: Any,
  model: LogitsFn,
  problem: Problem,
  state: AdamState,
  *,
  rate: float,
  smoothness: float,
) -> tuple[AdamState, Probe]:
  """Makes one step; `smoothness` over the budget weighs the roughness."""
  image, pull = jax.vjp(functools.partial(threat.render, problem.image), state.witness)
  here = loss_and_grad(model, losses.bind(loss, problem), image)
  # A budget of zero leaves one witness, and no penalty could matter.
  weight = jnp.where(problem.eps > 0, smoothness / jnp.where(problem.eps > 0, problem.eps, 1.0), 0.0)
  gradient = weight * jax.grad(roughness)(state.witness) - pull(here.grad)[0]
  moved = adam(state, gradient, rate)
  witness = threat.project(problem.image, moved.witness, problem.eps)
  return moved._replace(witness=witness), here.probe._replace(witness=state.witness)


def adam(state: AdamState, gradient: Array, rate: float) -> AdamState:
  """Makes one step of Adam with PyTorch's constants.

  >>> one = AdamState(jnp.zeros(1), jnp.zeros(1), jnp.zeros(1), jnp.zeros((), int))
  >>> round(float(adam(one, jnp.array([-3.0]), 0.01).witness[0]), 6)
  0.01
  """
  count = state.step + 1
  mean = BETA1 * state.mean + (1 - BETA1) * gradient
  square = BETA2 * state.square + (1 - BETA2) * jnp.square(gradient)
  size = jnp.sqrt(square) / jnp.sqrt(1 - BETA2**count) + TINY
  return AdamState(state.witness - rate / (1 - BETA1**count) * mean / size, mean, square, count)


def roughness(field: Array) -> Array:
  """Sums over all places and both neighbors along every axis |difference to the neighbor|_2; the last axis is a vector.

  Smoothed by 1e-10 under the root; beyond an edge a place is its own neighbor.

  >>> ramp = jnp.arange(3.0)[:, None]
  >>> round(float(roughness(ramp)), 3)
  4.0
  """
  total = jnp.zeros(())
  for axis in range(field.ndim - 1):
    steps = jnp.sum(jnp.square(jnp.diff(field, axis=axis)), axis=-1)
    # Each step is seen from both of its ends; the two edges add a constant.
    total += 2 * jnp.sum(jnp.sqrt(steps + 1e-10))
  return total
