"""Attacks on what an image is rendered from: scenes, the threats that measure them, and the step all descents share.

A scene is an offset from the identity (a flow field, a color table, coefficients), together with what was drawn by
chance (where flakes lie). Its threat renders it, measures the offset, and projects it into a budget. An attack
differentiates through the rendering; what it then does with the gradient is its own:

  StAdv and ReColorAdv     Adam, with a penalty on roughness (`AdamDescent`)
  ImageNet-UA              steps of fixed length (`unforeseen.ascent`)

The gradient is that at the projected offset, whatever the projection did. Source of Adam's form: mister_ed and
ReColorAdv (Laidlaw and Feizi 2019, arXiv:1906.00001), as perceptual-advex 0.2.6 uses them:

  w_0     = P(0)
  w_{k+1} = P(Adam(w_k, -grad m(render(x, w_k)) + (weight / b) grad roughness(w_k)))

m is the margin max_{j≠y} z_j - z_y, b the budget, P the projection.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from jaxrobust.attacks import losses
from jaxrobust.attacks.perceptual_steps import finite
from jaxrobust.attacks.registry import check_steps
from jaxrobust.core.errors import InputError
from jaxrobust.core.gradients import loss_and_grad
from jaxrobust.core.threat import Threat, norm_distance
from jaxrobust.core.types import Array, Cost, LogitsFn, Probe, Problem

BETA1, BETA2, TINY = 0.9, 0.999, 1e-8


class Scene(NamedTuple):
  """The witness of a rendered image.

  Attributes:
    offset: what is measured and optimized: an array, or several.
    seed: the words of the key from which the rest is drawn, (2,).
    drawing: which of the drawings of that key; 0 for none, where the image stays as it is.
  """

  offset: Any
  seed: Array
  drawing: Array


class WitnessThreat(Threat):
  """A threat whose witness is a scene, measured by a norm of its offset; of several arrays the largest counts.

  Some renderings change an image even without an offset: rings of wood, a coat of snow. A budget of zero therefore
  has one scene, that without a drawing.

  Attributes:
    norm: in which offsets are measured, linf or l2.
    redrawn: whether what chance decides may be drawn anew at every step.
  """

  witnessed = True
  norm: ClassVar[str] = "linf"
  redrawn: ClassVar[bool] = False

  def identity(self, image: Array) -> Any:
    """Returns the offset of zeros; raises InputError for images that the threat cannot take."""
    raise NotImplementedError

  def start(self, image: Array, eps: Array, key: Array) -> Any:
    """Returns the offset that an attack begins at, before it is projected; none unless the threat says otherwise.

    `key` is the scene's. A threat draws its scene from `jax.random.fold_in(key, 0)` and the start from `..., 1)`.
    """
    del eps, key
    return self.identity(image)

  def project(self, image: Array, offset: Any, eps: Array) -> Any:
    """Returns the nearest offset that is allowed within a budget."""
    del image
    if self.norm == "linf":
      return jax.tree.map(lambda leaf: jnp.clip(leaf, -eps, eps), offset)
    return jax.tree.map(lambda leaf: _shrink(leaf, eps), offset)

  def draw(self, image: Array, offset: Any, key: Array, drawing: Array) -> Array:
    """Returns the image that an offset makes, perhaps outside of [0, 1]."""
    raise NotImplementedError

  def render(self, original: Array, witness: Any) -> Array:
    key = jax.random.wrap_key_data(witness.seed)
    drawn = jnp.clip(self.draw(original, witness.offset, key, witness.drawing), 0.0, 1.0)
    return jnp.where(witness.drawing > 0, drawn, original)

  def distance(self, original: Array, image: Array, witness: Any = None) -> Array:
    """Returns the norm of the offset."""
    del original, image
    return jnp.max(jnp.stack([norm_distance(self.norm, leaf) for leaf in jax.tree.leaves(witness.offset)]))

  def config(self) -> dict[str, Any]:
    return {**dataclasses.asdict(self), **super().config()}  # type: ignore[call-overload]


def check_colors(image: Array, what: str) -> None:
  """Refuses images without three channels."""
  if image.shape[-1] != 3:
    raise InputError(f"{what} needs images of three channels, got {image.shape[-1]}")


def check_divides(image: Array, parts: tuple[int, int], what: str) -> None:
  """Refuses images whose height and width are not multiples of two numbers."""
  if image.shape[0] % parts[0] or image.shape[1] % parts[1]:
    raise InputError(f"{what} must divide the image, which is {image.shape[0]} × {image.shape[1]}")


def _shrink(offset: Array, radius: Array) -> Array:
  size = norm_distance("l2", offset)
  return jnp.where(size > radius, offset * (radius / jnp.maximum(size, 1e-30)), offset)


def unchanged_at_zero(original: Array, rendered: Array, offset: Array) -> Array:
  """Returns what was rendered, or the very image where the offset is zero; the gradient is that of the rendering."""
  return rendered + jax.lax.stop_gradient(jnp.where(jnp.any(offset != 0), 0.0, original - rendered))


def first_scene(threat: WitnessThreat, problem: Problem) -> Scene:
  """Returns where an attack begins."""
  offset = threat.project(problem.image, threat.start(problem.image, problem.eps, problem.key), problem.eps)
  drawing = (problem.eps > 0).astype(jnp.int32)
  return Scene(offset, jax.random.key_data(problem.key), drawing)


class DescentState(NamedTuple):
  """The scene to evaluate next, what the attack remembers of earlier gradients, and the number of steps made."""

  scene: Scene
  memory: Any
  step: Array


class WitnessAttack:
  """The base of attacks on scenes; a frozen dataclass that derives from it says what it does with a gradient."""

  threat: Any
  num_steps: int
  loss: str
  minimal = False
  access = "gradient"
  cost = Cost()

  def __post_init__(self) -> None:
    check_steps(self.num_steps)

  def remember(self, offset: Any) -> Any:
    """Returns the memory before the first step: none."""
    del offset
    return ()

  def move(self, problem: Problem, state: DescentState, gradient: Any) -> tuple[Any, Any]:
    """Returns the next offset, not projected yet, and the memory; `gradient` is that of the attack's loss."""
    raise NotImplementedError

  def init(self, problem: Problem) -> DescentState:
    scene = first_scene(self.threat, problem)
    return DescentState(scene, self.remember(scene.offset), jnp.zeros((), jnp.int32))

  def step(self, model: LogitsFn, problem: Problem, state: DescentState) -> tuple[DescentState, Probe]:
    scene, threat = state.scene, self.threat
    image, pull = jax.vjp(lambda offset: threat.render(problem.image, scene._replace(offset=offset)), scene.offset)
    here = loss_and_grad(model, losses.bind(self.loss, problem), image)
    gradient = jax.tree.map(finite, pull(here.grad)[0])
    moved, memory = self.move(problem, state, gradient)
    drawing = scene.drawing + ((scene.drawing > 0) & threat.redrawn)
    after = Scene(threat.project(problem.image, moved, problem.eps), scene.seed, drawing)
    return DescentState(after, memory, state.step + 1), here.probe._replace(witness=scene)

  def candidate(self, problem: Problem, state: DescentState) -> tuple[Array, Scene]:
    return self.threat.render(problem.image, state.scene), state.scene


class AdamDescent(WitnessAttack):
  """Descends by Adam; `smoothness` over the budget weighs the roughness of the offset."""

  learning_rate: float
  smoothness: float

  def remember(self, offset: Array) -> tuple[Array, Array]:
    return jnp.zeros_like(offset), jnp.zeros_like(offset)

  def move(self, problem: Problem, state: DescentState, gradient: Array) -> tuple[Array, tuple[Array, Array]]:
    # A budget of zero leaves one offset, and no penalty could matter.
    weight = jnp.where(problem.eps > 0, self.smoothness / jnp.where(problem.eps > 0, problem.eps, 1.0), 0.0)
    downhill = weight * jax.grad(roughness)(state.scene.offset) - gradient
    change, memory = adam(state.memory, downhill, state.step + 1)
    return state.scene.offset - self.learning_rate * change, memory


def adam(memory: tuple[Array, Array], gradient: Array, count: Array | int) -> tuple[Array, tuple[Array, Array]]:
  """Returns Adam's direction at its `count`-th step, from 1, with PyTorch's constants; and the two means it keeps.

  >>> [round(x, 4) for x in adam((jnp.zeros(2), jnp.zeros(2)), jnp.array([-3.0, 0.1]), 1)[0].tolist()]
  [-1.0, 1.0]
  """
  mean = BETA1 * memory[0] + (1 - BETA1) * gradient
  square = BETA2 * memory[1] + (1 - BETA2) * jnp.square(gradient)
  size = jnp.sqrt(square) / jnp.sqrt(1 - BETA2**count) + TINY
  return mean / (1 - BETA1**count) / size, (mean, square)


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
