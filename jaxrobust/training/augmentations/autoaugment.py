"""AutoAugment: pairs of operations whose probabilities and strengths were searched for.

Cubuk et al. 2019 (arXiv:1805.09501). An image gets one of 25 pairs, each operation with its probability and one of
ten magnitudes. The tables are those of the paper's appendix, with the ranges torchvision and the common PyTorch ports
use: shear 0.3, translation 150/331 of the side, 30 degrees, enhancement factors 1 ± 0.9, 8 to 4 bits, thresholds
255 to 0. Known deviations: see `operations`.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.core.registry import unknown_name
from jaxrobust.core.types import Array
from jaxrobust.training.augmentations.operations import Space, geometry_and_color, nothing, perform, random_sign
from jaxrobust.training.technique import TECHNIQUES, Augmentation

BINS = 10
SPACE: Space = {
  "autocontrast": nothing,
  "equalize": nothing,
  "invert": nothing,
  "posterize": lambda level, sign: 8 - jnp.round(4 * level),
  "solarize": lambda level, sign: 255 * (1 - level),
  **geometry_and_color(shear=0.3, translate=(150 / 331, 150 / 331), degrees=30.0, enhance=0.9),
}

# One pair per line: operation, probability in tenths, magnitude; operations without a magnitude have 0.
POLICIES = {
  "cifar10": """
    invert 1 0 contrast 2 6
    rotate 7 2 translate-x 3 9
    sharpness 8 1 sharpness 9 3
    shear-y 5 8 translate-y 7 9
    autocontrast 5 0 equalize 9 0
    shear-y 2 7 posterize 3 7
    color 4 3 brightness 6 7
    sharpness 3 9 brightness 7 9
    equalize 6 0 equalize 5 0
    contrast 6 7 sharpness 6 5
    color 7 7 translate-x 5 8
    equalize 3 0 autocontrast 4 0
    translate-y 4 3 sharpness 2 6
    brightness 9 6 color 2 8
    solarize 5 2 invert 0 0
    equalize 2 0 autocontrast 6 0
    equalize 2 0 equalize 6 0
    color 9 9 equalize 6 0
    autocontrast 8 0 solarize 2 8
    brightness 1 3 color 7 0
    solarize 4 5 autocontrast 9 0
    translate-y 9 9 translate-y 7 9
    autocontrast 9 0 solarize 8 3
    equalize 8 0 invert 1 0
    translate-y 7 9 autocontrast 9 0
  """,
  "imagenet": """
    posterize 4 8 rotate 6 9
    solarize 6 5 autocontrast 6 0
    equalize 8 0 equalize 6 0
    posterize 6 7 posterize 6 6
    equalize 4 0 solarize 2 4
    equalize 4 0 rotate 8 8
    solarize 6 3 equalize 6 0
    posterize 8 5 equalize 10 0
    rotate 2 3 solarize 6 8
    equalize 6 0 posterize 4 6
    rotate 8 8 color 4 0
    rotate 4 9 equalize 6 0
    equalize 0 0 equalize 8 0
    invert 6 0 equalize 10 0
    color 6 4 contrast 10 8
    rotate 8 8 color 10 2
    color 8 8 solarize 8 7
    sharpness 4 7 invert 6 0
    shear-x 6 5 equalize 10 0
    color 4 0 equalize 6 0
    equalize 4 0 solarize 2 4
    solarize 6 5 autocontrast 6 0
    invert 6 0 equalize 10 0
    color 6 4 contrast 10 8
    equalize 8 0 equalize 6 0
  """,
}


def policy_table(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns (25, 2) operations as numbers of `SPACE`, probabilities and levels.

  >>> [part.shape for part in policy_table("cifar10")]
  [(25, 2), (25, 2), (25, 2)]
  """
  names = list(SPACE)
  rows = [line.split() for line in POLICIES[name].strip().splitlines()]
  table = np.array([[[names.index(row[i]), int(row[i + 1]), int(row[i + 2])] for i in (0, 3)] for row in rows])
  return table[..., 0], table[..., 1] / 10, table[..., 2] / (BINS - 1)


@TECHNIQUES.register("autoaugment")
@dataclass(frozen=True)
class AutoAugment(Augmentation):
  """One of the 25 pairs of operations that were searched on `policy`, "imagenet" or "cifar10"."""

  policy: str = "imagenet"

  def __post_init__(self) -> None:
    if self.policy not in POLICIES:
      raise unknown_name("policy of autoaugment", self.policy, sorted(POLICIES))

  def augment(self, image: Array, key: Array) -> Array:
    keys = jax.random.split(key, 3)
    choices, probabilities, levels = (jnp.asarray(part) for part in policy_table(self.policy))
    pair = jax.random.randint(keys[0], (), 0, len(choices))

    def operate(number: Array, image: Array) -> Array:
      apply, sign = jax.random.split(keys[1 + number])
      changed = perform(SPACE, choices[pair, number], image, levels[pair, number], random_sign(sign))
      return jnp.where(jax.random.bernoulli(apply, probabilities[pair, number]), changed, image)

    return jax.lax.fori_loop(0, 2, operate, image)  # As in RandAugment.
