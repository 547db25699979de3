"""Momentum iterative method (MI-FGSM), and the form of all transfer attacks: view → gradient → smooth → momentum.

  g_{k+1} = mu · g_k + ∇ loss / |∇ loss|_1
  x_{k+1} = P(x_k + alpha · eps · steepest(g_{k+1}))

Norms l1, l2, linf; untargeted and targeted. Source: Dong et al. 2018 (arXiv:1710.06081); decay 1, 10 steps.
alpha defaults to 2 / steps, as in foolbox 3. The l1 norm is the image's own: batch-wide norms in other
libraries make the result depend on the batch.

`MIM` has a place for each piece that a relative adds (`transfer_gradients` puts them together by name):
  views   ∇ is the mean over views of the image (`attacks.views`)
  ahead   ∇ is taken where the momentum leads, at x_k + alpha · eps · mu · g_k in units of a mean |g| of one
  tuning  ∇ + v_k takes the place of ∇, with v_{k+1} = mean of ∇ around x_k, less ∇
  smooth  ∇ is convolved
The point reported is always x_k itself; where no gradient is taken there, one more forward pass looks at it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, cast

import jax
import jax.numpy as jnp

from jaxrobust.attacks import losses, norms
from jaxrobust.attacks.registry import ATTACKS, check_steps
from jaxrobust.attacks.views import Gaussian, Views
from jaxrobust.core.budget import check_norm
from jaxrobust.core.gradients import forward_probe, loss_and_grad
from jaxrobust.core.summation import sum_of_many
from jaxrobust.core.threat import by_norm
from jaxrobust.core.types import Array, Cost, LogitsFn, Probe, Problem

_DUAL = {"l1": 0.0, "l2": 0.5, "linf": 1.0}


class MIMState(NamedTuple):
  """The point to evaluate next, and what was gathered.

  Attributes:
    momentum: the accumulated gradient.
    number: of the step, for draws.
    variance: how gradients around the last point differ from the one there; None without tuning.
  """

  image: Array
  momentum: Array
  number: Array
  variance: Array | None


@dataclass(frozen=True)
class Nesterov:
  """Takes the gradient where the momentum leads."""


@dataclass(frozen=True)
class Variance:
  """Tunes the gradient by those at random points around the last one.

  Attributes:
    neighbors: how many points.
    beta: radius of the ball they are drawn from, in eps; they may lie beyond the box.
  """

  neighbors: int
  beta: float

  def offsets(self, norm: str, key: Array, shape: tuple[int, ...]) -> Array:
    """Returns where the neighbors lie, in eps."""
    keys = jax.random.split(key, self.neighbors)
    return self.beta * jax.vmap(lambda key: norms.random_in_ball(norm, key, shape))(keys)


@dataclass(frozen=True)
class MIM:
  """Gradient steps with momentum.

  Example:
    >>> MIM(num_steps=20).step_size, MIM().cost
    (0.1, Cost(forward=1, backward=1, parallel=1))
  """

  norm: str = "linf"
  num_steps: int = 10
  step_size: float | None = None
  decay: float = 1.0
  random_start: bool = False
  loss: str = "ce"
  name: str = "mim"
  views: Views | None = None
  ahead: Nesterov | None = None
  tuning: Variance | None = None
  smooth: Gaussian | None = None
  threat = by_norm
  minimal = False
  access = "gradient"
  pieces: ClassVar[tuple[str, ...]] = ("views", "ahead", "tuning", "smooth")

  def __post_init__(self) -> None:
    check_norm(self.norm)
    check_steps(self.num_steps)
    if self.step_size is None:
      object.__setattr__(self, "step_size", 2.0 / self.num_steps)

  @property
  def cost(self) -> Cost:
    copies = 1 if self.views is None else self.views.count
    neighbors = 0 if self.tuning is None else self.tuning.neighbors
    gradients = copies * (1 + neighbors)
    return Cost(gradients + (not self._at_the_point), gradients, copies * max(neighbors, 1))

  @property
  def needs_others(self) -> int:
    """Returns how many images of other classes the views are mixed from."""
    return 0 if self.views is None else self.views.others

  @property
  def _at_the_point(self) -> bool:
    """Tells whether the first gradient is that of the very point."""
    return self.ahead is None and (self.views is None or self.views.plain)

  def init(self, problem: Problem) -> MIMState:
    image = problem.image
    if self.random_start:
      image = norms.random_start(self.norm, problem.key, image, problem.eps)
    zero = jnp.zeros_like(image)
    return MIMState(image, zero, jnp.zeros((), jnp.int32), None if self.tuning is None else zero)

  def step(self, model: LogitsFn, problem: Problem, state: MIMState) -> tuple[MIMState, Probe]:
    length = cast(float, self.step_size) * problem.eps
    here, around = jax.random.split(jax.random.fold_in(problem.key, state.number))
    grad, probe = self._gradient(model, problem, here, state, length)
    direction, variance, nan = grad, None, probe.nan
    if self.tuning is not None:
      assert state.variance is not None
      direction = grad + state.variance
      mean, bad = self._around(model, problem, around, state.image)
      variance, nan = mean - grad, nan | bad
    if self.smooth is not None:
      direction = self.smooth(direction)
    momentum = self.decay * state.momentum + norms.normalize("l1", direction)
    image = norms.climb(self.norm, momentum, length, state.image, problem.image, problem.eps)
    flat = jnp.all(grad == 0.0) & ~nan
    probe = probe._replace(queries=self.cost.forward, point_query=1, nan=nan, flat=flat)
    return MIMState(image, momentum, state.number + 1, variance), probe

  def _gradient(
    self, model: LogitsFn, problem: Problem, key: Array, state: MIMState, length: Array
  ) -> tuple[Array, Probe]:
    """Returns the mean gradient over the views, and what to report of the point and of whether it was finite."""
    loss, image = losses.bind(self.loss, problem), state.image
    if self._at_the_point:
      point = loss_and_grad(model, loss, image)
      return point.grad, point.probe
    probe = forward_probe(model, image)
    if self.ahead is not None:
      # The momentum is a sum of gradients of l1 norm one: this makes their entries as large as a step of the norm.
      image = image + length * self.decay * state.momentum * image.size ** _DUAL[self.norm]
    grad, nan = _mean_gradient(model, loss, self.views, problem, key, image)
    return grad, probe._replace(nan=nan)

  def _around(self, model: LogitsFn, problem: Problem, key: Array, image: Array) -> tuple[Array, Array]:
    """Returns the mean gradient at random neighbors, and whether one was not finite."""
    assert self.tuning is not None
    loss, count = losses.bind(self.loss, problem), self.tuning.neighbors
    points = image + problem.eps * self.tuning.offsets(self.norm, key, image.shape)
    keys = jax.random.split(jax.random.fold_in(key, count), count)
    one = lambda point, key, number: _mean_gradient(model, loss, self.views, problem, key, point, number)
    grads, nan = jax.vmap(one)(points, keys, jnp.arange(count))
    return sum_of_many(grads) / count, jnp.any(nan)

  def candidate(self, problem: Problem, state: MIMState) -> Array:
    del problem
    return state.image


def _mean_gradient(
  model: LogitsFn,
  loss: Callable[[Array], Array],
  views: Views | None,
  problem: Problem,
  key: Array,
  image: Array,
  draw: Array | int = 0,
) -> tuple[Array, Array]:
  """Returns the mean gradient over the views of an image, and whether one of them was not finite.

  Args:
    draw: the number of this call, where one stands for many.
  """
  if views is None or views.plain:
    point = loss_and_grad(model, loss, image, draw)
    return point.grad, jnp.asarray(point.probe.nan)

  def one(number: Array) -> tuple[Array, Array]:
    shown, pull = jax.vjp(lambda image: views.show(key, problem, image, number), image)
    point = loss_and_grad(model, loss, shown, draw * views.count + number)
    return pull(point.grad)[0], jnp.asarray(point.probe.nan)

  grads, nan = jax.vmap(one)(jnp.arange(views.count))
  return sum_of_many(grads) / views.count, jnp.any(nan)


@ATTACKS.register("mim")
def momentum_method(
  norm: str = "linf",
  num_steps: int = 10,
  step_size: float | None = None,
  decay: float = 1.0,
  random_start: bool = False,
  loss: str = "ce",
) -> MIM:
  """Gradient steps with momentum, and nothing else."""
  return MIM(norm, num_steps, step_size, decay, random_start, loss)
