"""Random resizing and padding, R&P (Xie et al. 2018, arXiv:1711.01991).

An image of side s is shrunk by nearest neighbors to a side drawn from [smallest s, s] and put at a random place of a
square of side s that is 0 elsewhere. Adaptive: its own gradient, averaged over draws by the engine (EOT).
Default: smallest 0.875, as ARES has it. Deviations: the authors grow 299 pixels to 331, ARES (and this) keeps the side
that the network takes; ARES draws once per batch and fails where nothing is left to pad, this draws for every image.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from jaxrobust.core.defense import Defense, ImageDefense
from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.defenses.registry import DEFENSES


@DEFENSES.register("r&p")
@dataclasses.dataclass(frozen=True)
class RandomPadding(ImageDefense):
  """Random resizing and padding.

  >>> one = RandomPadding(smallest=0.5).transform(jnp.ones((8, 8, 1)), jax.random.key(0))
  >>> sorted(set(one.ravel().tolist()))
  [0.0, 1.0]
  """

  name = "r&p"
  randomized = True
  smallest: float = 0.875
  adaptive = Defense.adaptive

  def __post_init__(self) -> None:
    if not 0 < self.smallest <= 1:
      raise InputError(f"the smallest size is a share of the image in (0, 1], got {self.smallest}")

  def transform(self, image: Array, key: Array | None) -> Array:
    assert key is not None
    size, places = jax.random.split(key)
    ratio = jax.random.uniform(size, (), minval=self.smallest, maxval=1.0)
    rows, inside_rows = _source(image.shape[0], ratio, jax.random.fold_in(places, 0))
    columns, inside_columns = _source(image.shape[1], ratio, jax.random.fold_in(places, 1))
    inside = inside_rows[:, None, None] & inside_columns[None, :, None]
    return jnp.where(inside, image[rows][:, columns], 0.0)


def _source(side: int, ratio: Array, key: Array) -> tuple[Array, Array]:
  """Returns for each place of one axis the pixel it shows, and whether it shows any: shapes do not follow the draw."""
  new = jnp.maximum(jnp.floor(side * ratio + 1e-4), 1)
  first = jax.random.randint(key, (), 0, (side - new + 1).astype(jnp.int32))
  place = jnp.arange(side) - first
  source = jnp.floor((place + 0.5) * side / new).astype(jnp.int32)
  return jnp.clip(source, 0, side - 1), (place >= 0) & (place < new)
