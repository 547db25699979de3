"""The chips that programs are compiled for: what they compute, move and hold per second, and what an hour costs.

Peaks are the makers' own: Google Cloud's pages of TPU v5e, v5p and v6e, and NVIDIA's data sheet of the H100 SXM. Prices
are list prices on demand in the United States (a3-highgpu-8g for the H100), per chip; `--price` replaces them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name

# Passes of bfloat16 that a product of float32 takes on a TPU's matrix unit, by precision.
TPU_PASSES = {"highest": 6.0, "float32": 6.0, "high": 3.0, "default": 1.0, "bfloat16": 1.0}
# The same for an H100, as the ratio of peaks: 67 TFLOP/s outside its tensor cores, 495 as TF32.
GPU_PASSES = {"highest": 989 / 67, "float32": 989 / 67, "high": 2.0, "default": 2.0, "bfloat16": 1.0}


@dataclass(frozen=True)
class Chip:
  """One kind of chip.

  Attributes:
    platform: as JAX calls it, "tpu" or "cuda".
    peak: FLOP/s of bfloat16 products; bandwidth: bytes/s of its memory; memory: bytes.
    links: bytes/s to its neighbors, all links together.
    price: US dollars per hour.
    passes: how many times longer a float32 product takes than one of bfloat16, by precision.
  """

  name: str
  platform: str
  peak: float
  bandwidth: float
  memory: float
  links: float
  price: float
  passes: Mapping[str, float] = field(default_factory=lambda: TPU_PASSES, hash=False)


CHIPS = {
  chip.name: chip
  for chip in (
    Chip("v5e", "tpu", 197e12, 819e9, 16e9, 200e9, 1.20),
    Chip("v5p", "tpu", 459e12, 2765e9, 95e9, 600e9, 4.20),
    Chip("v6e", "tpu", 918e12, 1640e9, 32e9, 448e9, 2.70),
    Chip("h100", "cuda", 989e12, 3350e9, 80e9, 450e9, 11.06, GPU_PASSES),
  )
}

_TPU = re.compile(r"(v\d\w*):(\d+(?:x\d+){1,2})")
_GPU = re.compile(r"(h\d+)x(\d+)")


@dataclass(frozen=True)
class Slice:
  """Some chips of one kind that are wired together: `v5e:4x4`, `v5p:2x2x4`, `h100x8`."""

  text: str
  chip: Chip
  count: int

  @classmethod
  def parse(cls, text: str) -> Slice:
    """Reads the name of a slice.

    >>> Slice.parse("v5e:4x4").count, Slice.parse("h100x8").chip.platform
    (16, 'cuda')
    >>> Slice.parse("v5e")
    Traceback (most recent call last):
    jaxrobust.core.errors.InputError: 'v5e' names no slice; write v5e:4x4, v5p:2x2x4, v6e:2x2 or h100x8
    """
    found = _TPU.fullmatch(text) or _GPU.fullmatch(text)
    if not found:
      raise InputError(f"{text!r} names no slice; write v5e:4x4, v5p:2x2x4, v6e:2x2 or h100x8")
    if found[1] not in CHIPS:
      raise unknown_name("chip", found[1], sorted(CHIPS))
    chip = CHIPS[found[1]]
    if (chip.platform == "tpu") != (":" in text):
      raise InputError(f"{text!r} names no slice; write v5e:4x4, v5p:2x2x4, v6e:2x2 or h100x8")
    extents = [int(extent) for extent in found[2].split("x")]
    if not all(extents):
      raise InputError(f"{text!r} has no chips")
    return cls(text, chip, math.prod(extents))
