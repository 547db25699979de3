"""Bit-depth reduction: few levels per color (Xu et al. 2018, arXiv:1704.01155; Guo et al. 2018, arXiv:1711.00117).

  q(x) = min(⌊L x⌋, L - 1) / (L - 1)

with L levels: equal bins of [0, 1], the outermost ones become 0 and 1 (ARES' code, steps at k / L). Adaptive: BPDA by
the identity, since the true gradient is zero wherever it exists. Default: 4 levels (ARES); its second version
counts bits, of which 2 are these 4 levels. Deviation: Xu et al. round to the nearest level, so outer bins are halved.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from jaxrobust.core.defense import ImageDefense
from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.defenses.registry import DEFENSES


@DEFENSES.register("bit-depth")
@dataclasses.dataclass(frozen=True)
class BitDepth(ImageDefense):
  """Few levels per color.

  >>> [round(float(x), 2) for x in BitDepth(levels=4).transform(jnp.array([0.1, 0.3, 0.6, 1.0]), None)]
  [0.0, 0.33, 0.67, 1.0]
  """

  name = "bit-depth"
  levels: int = 4

  def __post_init__(self) -> None:
    if not 2 <= self.levels <= 256:
      raise InputError(f"there are 2 to 256 levels, got {self.levels}")

  def transform(self, image: Array, key: Array | None) -> Array:
    del key
    return jnp.clip(jnp.floor(self.levels * image), 0, self.levels - 1) / (self.levels - 1)
