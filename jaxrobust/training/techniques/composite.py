"""GAT: generalized adversarial training, against changes of color, a rotation and a linf ball one after the other.

  x_0 = x,   x_{k+1} = c_k(x_k, w_k),   w_k climbs CE(f(c_k(x_k, w)), y) within [-1, 1]

The c are six changes, in an order that is drawn anew for each batch:

  hue          HSV's, turned by w · 180°                     rotation   by w · 10° around the center, zero outside
  saturation   HSV's, times 1 + 0.3 w, at most 1             brightness plus 0.2 w, clipped
  linf         plus eps w, clipped; a w for every value      contrast   times 1 + 0.3 w, clipped

Each makes 10 steps of 0.25 along the sign of its own gradient, from a uniform start (linf from zero), and hands its
last image to the next; the warm-up of attacks scales all six. Cross-entropy is trained on (their `adv_train_madry`).

Source: Hsiung et al. 2023 (arXiv:2202.04235), github.com/IBM/composite-adv (`train_cifar10.py`, order random) and the
kornia that it calls. Known deviations: images begin as they are, without their 0.001 of Gaussian noise; an order
that is searched too ("scheduled", by a doubly stochastic matrix), and their form with TRADES, whose divergence they
divide by the size of the batch twice, are not here.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxrobust.attacks.rigid import RigidMotion
from jaxrobust.attacks.unforeseen.kaleidoscope import from_hsv
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.types import Array
from jaxrobust.training.technique import TECHNIQUES, Batch, Context
from jaxrobust.training.techniques.adversarial import AdversarialTraining
from jaxrobust.training.techniques.objectives import soft_cross_entropy

_TURN = RigidMotion(angle=10.0, shift=0.0)


def turn_hue(image: Array, share: Array) -> Array:
  """Turns HSV's hue by a share of half a circle; no gradient flows to the image.

  >>> turn_hue(jnp.array([1.0, 0.0, 0.0]), jnp.array(2 / 3)).round(3).tolist()
  [0.0, 1.0, 0.0]
  """
  value, depth, hue = _hsv(jax.lax.stop_gradient(image))
  return from_hsv((hue + 0.5 * share) % 1.0, depth / jnp.where(value > 0, value, 1.0), value)


def scale_saturation(image: Array, share: Array) -> Array:
  """Scales HSV's saturation: the distances of all channels to the largest."""
  value, depth, _ = _hsv(jax.lax.stop_gradient(image))
  saturation = depth / jnp.where(value > 0, value, 1.0)
  scaled = jnp.minimum(saturation * (1 + 0.3 * share), 1.0) / jnp.where(saturation > 0, saturation, 1.0)
  return value[..., None] - scaled[..., None] * (value[..., None] - image)


def rotate(image: Array, share: Array) -> Array:
  """Rotates by a share of 10 degrees."""
  return _TURN.draw(image, jnp.zeros(3).at[0].set(share), jax.random.key(0), jnp.ones(()))


def _hsv(image: Array) -> tuple[Array, Array, Array]:
  """Returns value, the distance of the smallest channel to it, and hue in circles."""
  red, green, blue = image[..., 0], image[..., 1], image[..., 2]
  value = jnp.max(image, axis=-1)
  depth = value - jnp.min(image, axis=-1)
  size = jnp.where(depth > 0, depth, 1.0)
  sixths = jnp.where(
    red == value,
    (green - blue) / size,
    jnp.where(green == value, 2 + (blue - red) / size, 4 + (red - green) / size),
  )
  return value, depth, sixths / 6 % 1.0


CHANGES: dict[str, Callable[[Array, Array], Array]] = {
  "hue": turn_hue,
  "saturation": scale_saturation,
  "rotation": rotate,
  "brightness": lambda image, share: jnp.clip(image + 0.2 * share, 0.0, 1.0),
  "contrast": lambda image, share: jnp.clip(image * (1 + 0.3 * share), 0.0, 1.0),
}
LINF = "linf"
_COLORS = ("hue", "saturation")


@TECHNIQUES.register("gat")
@dataclasses.dataclass(frozen=True)
class CompositeTraining(AdversarialTraining):
  """Trains on images that were changed in several ways, each against the network.

  Attributes:
    changes: names of `CHANGES`, or `linf`, whose budget is `eps`; each once.
  """

  changes: tuple[str, ...] = (*CHANGES, LINF)

  def __post_init__(self) -> None:
    super().__post_init__()
    object.__setattr__(self, "changes", tuple(self.changes))
    for name in self.changes:
      if name not in (*CHANGES, LINF):
        raise unknown_name("change", name, [*CHANGES, LINF])
    if not self.changes or len(set(self.changes)) < len(self.changes) or self.norm != LINF:
      raise InputError("gat needs changes, each of them once, and its ball in linf")

  def craft(self, batch: Batch, context: Context) -> Array:
    if batch.images.shape[-1] != 3 and set(_COLORS) & set(self.changes):
      raise InputError(f"{' and '.join(_COLORS)} need three channels: name other changes")
    order = jax.random.permutation(context.key, len(self.changes))
    climb = lambda place, images: self._climb(order[place], images, batch, context)
    return jax.lax.stop_gradient(jax.lax.fori_loop(0, len(self.changes), climb, batch.images))

  def _climb(self, which: Array, images: Array, batch: Batch, context: Context) -> Array:
    """Returns what the change of number `which` makes of images in its search."""
    reach, eps = context.eps_scale, self.budget * context.eps_scale
    draws = [functools.partial(_draw, name) for name in self.changes]

    def made(moves: tuple[Array, Array]) -> Array:
      return jax.lax.switch(which, draws, images, *moves)

    def loss(moves: tuple[Array, Array]) -> Array:
      return jnp.sum(soft_cross_entropy(self.attacked(context)(made(moves)), batch.targets))

    def step(_: Array, moves: tuple[Array, Array]) -> tuple[Array, Array]:
      up, by = jax.grad(loss)(moves), self.step_size
      share = jnp.clip(moves[0] + by * reach * jnp.sign(up[0]), -reach, reach)
      noise = jnp.clip(moves[1] + by * eps * jnp.sign(up[1]), -eps, eps)
      # So that linf needs no clipping, which would stop gradients.
      return share, jnp.clip(noise, -images, 1.0 - images)

    keys = jax.vmap(jax.random.fold_in, (0, None))(batch.keys, which)
    start = reach * jax.vmap(lambda key: jax.random.uniform(key, minval=-1.0))(keys)
    return made(jax.lax.fori_loop(0, self.num_steps, step, (start, jnp.zeros_like(images))))


def _draw(name: str, images: Array, share: Array, noise: Array) -> Array:
  return images + noise if name == LINF else jax.vmap(CHANGES[name])(images, share)
