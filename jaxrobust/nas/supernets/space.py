"""What a subnet may be: widths, depths, kernels and expansions of the stages of three families.

RobustART (arXiv:2109.05211, appendix) trains three supernets, MobileNetV3, ResNet with basic blocks and with
bottlenecks, but prints no dimensions. Those of `SPACES` called `mobilenetv3` and `resnet-basic` follow public search
spaces of the same kind (kernel 3 to 7, expansion 3, 4, 6, depth 2 to 4; widths in steps up to 768, stem kernel 3 to 7,
depth 1 to 3); `resnet-bottleneck` and every `small-…` are ours.

  >>> space = SPACES["small-resnet-basic"]
  >>> largest(space).width.tolist(), smallest(space).depth.tolist()
  ([16, 32], [1, 1])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from jaxrobust.core.errors import InputError

KINDS = ("mobilenetv3", "resnet-basic", "resnet-bottleneck")
FACTORS = ("kernel", "depth", "expand", "width")


class Subnet(NamedTuple):
  """One network of a supernet; numbers, so that a program takes them as data.

  Attributes:
    width: (S,) channels behind each stage.
    depth: (S,) blocks of each stage.
    kernel: (S, D) side of the spatial convolution of each block, used or not.
    expand: (S, D) channels inside a block over those behind it.
    stem: () kernel of the stem.
  """

  width: np.ndarray
  depth: np.ndarray
  kernel: np.ndarray
  expand: np.ndarray
  stem: np.ndarray


@dataclass(frozen=True)
class StageChoices:
  """The choices of one stage, each in rising order."""

  widths: tuple[int, ...]
  depths: tuple[int, ...]
  kernels: tuple[int, ...] = (3,)
  expands: tuple[float, ...] = (1.0,)
  stride: int = 2


@dataclass(frozen=True)
class SupernetSpace:
  """The choices of a supernet.

  Attributes:
    kind: of its blocks, one of `KINDS`.
    stem_width: channels of the first convolution, which strides by `stem_stride`.
    stem_kernels: its sides.
    stages: their choices.
    sizes: of images in pixels; a size is a shape, so each has a program of its own.
  """

  kind: str
  stem_width: int
  stages: tuple[StageChoices, ...]
  sizes: tuple[int, ...]
  stem_kernels: tuple[int, ...] = (3,)
  stem_stride: int = 1

  def __post_init__(self) -> None:
    if self.kind not in KINDS:
      raise InputError(f"kinds of supernets are {', '.join(KINDS)}, not {self.kind!r}")

  @property
  def blocks(self) -> int:
    """Returns the most blocks of any stage."""
    return max(stage.depths[-1] for stage in self.stages)

  def factors(self) -> list[str]:
    """Returns what can be varied, beside the input size."""
    some = {
      "kernel": len(self.stem_kernels) > 1 or any(len(stage.kernels) > 1 for stage in self.stages),
      "depth": any(len(stage.depths) > 1 for stage in self.stages),
      "expand": any(len(stage.expands) > 1 for stage in self.stages),
      "width": any(len(stage.widths) > 1 for stage in self.stages),
    }
    return [name for name in FACTORS if some[name]]


def pick(space: SupernetSpace, rng: np.random.Generator, varied: Sequence[str] = FACTORS) -> Subnet:
  """Draws a subnet at random.

  Args:
    space: of all subnets.
    rng: draws every choice alone, uniformly.
    varied: the factors that are drawn; others are the largest.

  Returns:
    The subnet.
  """
  take = lambda name, options: options[rng.integers(len(options))] if name in varied else options[-1]
  rows = [(stage, range(space.blocks)) for stage in space.stages]
  return Subnet(
    np.array([take("width", stage.widths) for stage, _ in rows], np.int32),
    np.array([take("depth", stage.depths) for stage, _ in rows], np.int32),
    np.array([[take("kernel", stage.kernels) for _ in blocks] for stage, blocks in rows], np.int32),
    np.array([[take("expand", stage.expands) for _ in blocks] for stage, blocks in rows], np.float32),
    np.array(take("kernel", space.stem_kernels), np.int32),
  )


def largest(space: SupernetSpace) -> Subnet:
  """Returns the subnet with the largest of every choice: the supernet itself."""
  return pick(space, np.random.default_rng(0), ())


def smallest(space: SupernetSpace) -> Subnet:
  """Returns the subnet with the smallest of every choice."""
  first = [StageChoices(s.widths[:1], s.depths[:1], s.kernels[:1], s.expands[:1], s.stride) for s in space.stages]
  found = largest(SupernetSpace(space.kind, space.stem_width, tuple(first), space.sizes, space.stem_kernels[:1]))
  wider = lambda rows: np.repeat(rows[:, :1], space.blocks, axis=1)
  return found._replace(kernel=wider(found.kernel), expand=wider(found.expand))


def middle_width(width: int | np.ndarray, expand: float | np.ndarray) -> np.ndarray:
  """Returns the channels inside a block: expansion times width, rounded down."""
  return np.floor(np.asarray(width) * np.asarray(expand) + 1e-4).astype(np.int32)


def describe(space: SupernetSpace, subnet: Subnet, size: int) -> dict[str, float]:
  """Sums a subnet up as the numbers that accuracies are correlated with: over blocks that are used, stage by stage.

  Returns:
    `size` (input), `kernel` (sum of sides), `depth` (blocks), `last depth` (of the last stage), `expand` and `width`
    (sums), each where the space varies it.
  """
  used = np.arange(space.blocks)[None] < subnet.depth[:, None]
  numbers = {
    "size": float(size),
    "kernel": float(subnet.stem + subnet.kernel[used].sum()),
    "depth": float(subnet.depth.sum()),
    "last depth": float(subnet.depth[-1]),
    "expand": float(subnet.expand[used].sum()),
    "width": float(subnet.width.sum()),
  }
  return {name: value for name, value in numbers.items() if name.split()[-1] in ("size", *space.factors())}


def _mobile(widths: Sequence[int], strides: Sequence[int], depths: tuple[int, ...]) -> tuple[StageChoices, ...]:
  rows = zip(widths, strides, strict=True)
  return tuple(StageChoices((width,), depths, (3, 5, 7), (3.0, 4.0, 6.0), stride) for width, stride in rows)


_BASIC = ((32, 96, 16), (64, 192, 32), (128, 384, 32), (256, 768, 64))
SPACES = {
  "mobilenetv3": SupernetSpace(
    "mobilenetv3", 16, _mobile((24, 40, 80, 112, 160), (2, 2, 2, 1, 2), (2, 3, 4)), (160, 192, 224), stem_stride=2
  ),
  "resnet-basic": SupernetSpace(
    "resnet-basic",
    64,
    tuple(
      StageChoices(tuple(range(low, high + 1, step)), (1, 2, 3), (3,), stride=1 if low == 32 else 2)
      for low, high, step in _BASIC
    ),
    (160, 192, 224),
    (3, 5, 7),
    4,
  ),
  "resnet-bottleneck": SupernetSpace(
    "resnet-bottleneck",
    64,
    tuple(
      StageChoices((width,), depths, (3, 5, 7), (0.2, 0.25, 0.35), stride=1 if width == 256 else 2)
      for width, depths in ((256, (2, 3, 4)), (512, (2, 3, 4)), (1024, (4, 5, 6)), (2048, (2, 3, 4)))
    ),
    (160, 192, 224),
    stem_stride=4,
  ),
  "small-mobilenetv3": SupernetSpace(
    "mobilenetv3",
    8,
    (StageChoices((8,), (1, 2), (3, 5), (2.0, 3.0)), StageChoices((16,), (1, 2), (3, 5), (2.0, 3.0))),
    (12, 16),
  ),
  "small-resnet-basic": SupernetSpace(
    "resnet-basic",
    8,
    (StageChoices((8, 12, 16), (1, 2), (3, 5)), StageChoices((16, 24, 32), (1, 2), (3, 5))),
    (12, 16),
    (3, 5),
  ),
  "small-resnet-bottleneck": SupernetSpace(
    "resnet-bottleneck",
    8,
    (StageChoices((16, 24), (1, 2), (3, 5), (0.25, 0.5)), StageChoices((32, 48), (1, 2), (3, 5), (0.25, 0.5))),
    (12, 16),
  ),
}
