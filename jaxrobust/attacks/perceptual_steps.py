"""What attacks within a perceptual distance share: the start, and the way back into the ball.

d is the distance of `core.lpips.Lpips`, phi its vector of features. Source: Laidlaw et al. 2021 (arXiv:2006.12655) and
perceptual-advex 0.2.6, of which two slips are mended. There, the gradient of Newton's second and later steps is the sum
of all so far, which makes steps ever shorter; and the bisection returns the last point tried, which may lie outside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrobust.attacks.registry import check_steps
from jaxrobust.core.errors import InputError
from jaxrobust.core.gradients import ImageLogits, Loss, draws_at
from jaxrobust.core.lpips import Lpips, length
from jaxrobust.core.summation import ordered_sum
from jaxrobust.core.types import Array, LogitsFn, Problem

NOISE = 0.01
NEWTON_STEPS = 10
BISECTIONS = 10
OVERSHOOT = 0.1


class PerceptualAttack:
  """The base of attacks within a perceptual distance; a frozen dataclass derives from it. Their states have `image`."""

  threat: Any
  minimal = False
  access = "gradient"
  may_leave_ball = True

  @property
  def num_steps(self) -> int:
    raise NotImplementedError

  def __post_init__(self) -> None:
    check_steps(self.num_steps)
    if not isinstance(self.threat, Lpips):
      raise InputError(f"threat must be a perceptual one such as Lpips(), got {self.threat!r}")

  def candidate(self, problem: Problem, state: Any) -> Array:
    del problem
    image: Array = state.image
    return image


class Look(NamedTuple):
  """What classifier and threat see at a point, and the way back from both.

  Attributes:
    loss, slope: the loss there, and its gradient with respect to `draws`, a row of logits per draw.
    phi: the features.
    pull: takes a cotangent of the draws, or None, and one of phi, or None, to that of the image.
  """

  loss: Array
  slope: Array
  draws: Array
  phi: Array
  pull: Callable[[Array | None, Array | None], Array]


def look(threat: Lpips, model: LogitsFn, loss: Loss, image: Array) -> Look:
  """Looks at a point: by one pass through the classifier, and one way back, where the threat is of its own features."""
  own = isinstance(model, ImageLogits) and model.classifier is threat.network
  once = own and not threat.network.randomized
  draws, phi, pull = _one_pass(threat, image) if once else _two_passes(threat, model, image)
  value, slope = jax.value_and_grad(lambda draws: jnp.mean(jax.vmap(loss)(draws)))(draws)
  return Look(value, slope, draws, phi, pull)


def _one_pass(threat: Lpips, image: Array) -> tuple[Array, Array, Callable]:
  def both(image: Array) -> tuple[Array, Array]:
    logits, features = threat.network.logits_and_features(image[None])
    return logits, threat.phi(features)

  (draws, phi), back = jax.vjp(both, image)

  def pull(slope: Array | None, away: Array | None) -> Array:
    return back((jnp.zeros_like(draws) if slope is None else slope, jnp.zeros_like(phi) if away is None else away))[0]

  return draws, phi, pull


def _two_passes(threat: Lpips, model: LogitsFn, image: Array) -> tuple[Array, Array, Callable]:
  draws, from_draws = jax.vjp(lambda image: draws_at(model, image), image)
  phi, from_phi = jax.vjp(threat.embed, image)

  def pull(slope: Array | None, away: Array | None) -> Array:
    # A way back of zeros through another network would cost as much as any.
    parts = [back(one)[0] for back, one in ((from_draws, slope), (from_phi, away)) if one is not None]
    return sum(parts[1:], parts[0])

  return draws, phi, pull


def noisy_start(problem: Problem) -> Array:
  """Returns the image with a little Gaussian noise, clipped; at the image itself the distance has no gradient."""
  return jnp.clip(problem.image + NOISE * jax.random.normal(problem.key, problem.image.shape), 0.0, 1.0)


def distance_and_gradient(threat: Lpips, anchor: Array, image: Array) -> tuple[Array, Array]:
  """Returns d and its gradient at an image; `anchor` is phi of the original."""
  distance, gradient = jax.value_and_grad(lambda x: length(threat.embed(x) - anchor))(image)
  return distance, finite(gradient)


def finite(gradient: Array) -> Array:
  """Returns a gradient with zeros where it is not finite, as `loss_and_grad` does."""
  return jnp.where(jnp.isfinite(gradient), gradient, 0.0)


class _Newton(NamedTuple):
  """A point on its way back; `beyond` is how far outside it was before the last move."""

  image: Array
  beyond: Array
  step: Array


def project(
  threat: Lpips, anchor: Array, original: Array, image: Array, bound: Array, active: Array | bool = True
) -> Array:
  """Returns a point of the ball d <= bound near `image`, by Newton's method, or by bisection toward the original.

    t = max(d - bound, 0) + 0.1 where that is more than 0,   x <- clip(x - 1.1 t g / |g|², 0, 1),   g = grad d

  At most ten times; then ten halvings between the original and what was reached. Loops end as soon as no image needs
  them; with `active` False nothing is done.
  """

  def outside(state: _Newton) -> Array:
    return jnp.asarray(active) & (state.beyond > 0) & (state.step < NEWTON_STEPS)

  def back(state: _Newton) -> _Newton:
    distance, gradient = distance_and_gradient(threat, anchor, state.image)
    beyond = jnp.maximum(distance - bound, 0.0)
    beyond = jnp.where(beyond > 0, beyond + OVERSHOOT, 0.0)
    squared = ordered_sum(jnp.square(gradient))
    direction = jnp.where(squared > 0, gradient / jnp.where(squared > 0, squared, 1.0), 0.0)
    moved = jnp.clip(state.image - (1 + OVERSHOOT) * beyond * direction, 0.0, 1.0)
    return _Newton(jnp.where(beyond > 0, moved, state.image), beyond, state.step + 1)

  reached = jax.lax.while_loop(outside, back, _Newton(image, jnp.ones(()), jnp.zeros((), jnp.int32)))
  return _bisect(threat, anchor, original, reached.image, bound, jnp.asarray(active) & (reached.beyond > 0))


def _bisect(threat: Lpips, anchor: Array, original: Array, far: Array, bound: Array, active: Array) -> Array:
  """Returns the farthest point found inside between an original and a point; the point itself where not `active`."""

  def halve(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    low, high, step = state
    middle = 0.5 * (low + high)
    within = length(threat.embed(original + middle * (far - original)) - anchor) <= bound
    return jnp.where(within, middle, low), jnp.where(within, high, middle), step + 1

  start = (jnp.zeros(()), jnp.ones(()), jnp.zeros((), jnp.int32))
  low, _, _ = jax.lax.while_loop(lambda state: active & (state[2] < BISECTIONS), halve, start)
  return jnp.where(active, original + low * (far - original), far)
