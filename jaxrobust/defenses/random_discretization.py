"""RandMix: randomized discretization by soft clusters of colors (Zhang & Liang 2019, arXiv:1903.10586).

Two noisy copies of the image are drawn. Colors of a few pixels of the first are the centers c_1 … c_k; every pixel u of
the second becomes Σ_j w_j c_j with w = softmax_j(-α ‖u - c_j‖²). Logits are the mean over several such draws.
Adaptive: its own gradient, which also flows through the centers, averaged over draws by the engine (EOT).

Defaults, ARES': noise of 32/255 where images are in [-1, 1] (half of it here, in [0, 1]), 5 centers, α 10 in [-1, 1]
(40 here), 10 draws. Its k-means++ over 100 pixels never updates its distances, so that its centers are uniform draws
(which may repeat); so are these.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.defense import Defense
from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.defenses.copies import mean_over_copies
from jaxrobust.defenses.registry import DEFENSES

# Squared distances in [0, 1] are a quarter of those in [-1, 1].
_SCALE = 4


@DEFENSES.register("randmix")
@dataclasses.dataclass(frozen=True)
class RandomDiscretization(Defense):
  """RandMix: noisy colors replaced by mixtures of a few random ones.

  Attributes:
    noise: standard deviation, of images in [-1, 1].
    centers: colors.
    sharpness: α, of images in [-1, 1].
    copies: draws whose logits are averaged.
  """

  name = "randmix"
  randomized = True
  noise: float = 32 / 255
  centers: int = 5
  sharpness: float = 10.0
  copies: int = 10

  def __post_init__(self) -> None:
    if self.noise < 0 or self.sharpness <= 0 or self.centers < 1 or self.copies < 1:
      raise InputError("randmix wants noise of at least 0, sharpness above 0, and at least one center and copy")

  def answer(self, ask: Classifier, weights: Any, images: Array, key: Array | None) -> Array:
    assert key is not None
    draw = lambda key: jax.vmap(self.discretized)(images, jax.random.split(key, len(images)))
    return mean_over_copies(lambda key, rest: ask(draw(key), rest), key, self.copies)

  def discretized(self, image: Array, key: Array) -> Array:
    """Returns one draw of one image.

    >>> one = RandomDiscretization(centers=1).discretized(jnp.zeros((4, 4, 3)), jax.random.key(0))
    >>> float(abs(one - one[0, 0]).max())
    0.0
    """
    first, second, which = jax.random.split(key, 3)
    noisy = lambda key: image + self.noise / 2 * jax.random.normal(key, image.shape)
    pixels = noisy(first).reshape(-1, image.shape[-1])
    centers = pixels[jax.random.randint(which, (self.centers,), 0, len(pixels))]
    distances = jnp.sum(jnp.square(noisy(second)[..., None, :] - centers), axis=-1)
    return jax.nn.softmax(-_SCALE * self.sharpness * distances) @ centers
