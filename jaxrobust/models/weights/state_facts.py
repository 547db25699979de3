"""What a checkpoint says of its network besides the weights: classes, input channels, the grid of its positions.

An architecture is a name; its files differ in what was trained with it. Tensors that fit but for one axis say which.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import flax
import numpy as np
from flax import linen as nn
from PIL import Image

from jaxrobust.models.registry import abstract_variables
from jaxrobust.models.weights.torch_names import match_names
from jaxrobust.models.weights.torch_weights import torch_name, torch_shape

POSITIONS = "pos_embed"


class StateFacts(NamedTuple):
  """The facts that tensors of a checkpoint tell, where they differ from the architecture's own.

  Attributes:
    classes: outputs of the head; None where they are the architecture's.
    channels: of its input images; None likewise.
    side: tokens along a side of the grid that its positions were trained for; None likewise.
  """

  classes: int | None = None
  channels: int | None = None
  side: int | None = None


def read_facts(
  module: nn.Module, state: Mapping[str, np.ndarray], shape: tuple[int, int, int], classes: int
) -> StateFacts:
  """Returns what the tensors say that fit `module`, with `classes` outputs for images of `shape`, but for one axis."""
  wanted = flax.traverse_util.flatten_dict(abstract_variables(module, shape))
  ours = {torch_name(path): torch_shape(path, leaf.shape) for path, leaf in wanted.items()}
  found = match_names(ours, state).found
  outputs, inputs, side = set(), set(), None
  for name, theirs in ((name, np.shape(state[found[name]])) for name in found):
    own = ours[name]
    if len(own) != len(theirs) or own == theirs:
      continue
    if own[0] == classes and own[1:] == theirs[1:]:
      outputs.add(theirs[0])
    elif len(own) == 4 and own[1] == shape[2] and own[::2] == theirs[::2]:
      inputs.add(theirs[1])
    elif name.endswith(POSITIONS) and own[2:] == theirs[2:]:
      side = grid_side(own[1], theirs[1])
  alone = lambda numbers: numbers.pop() if len(numbers) == 1 else None
  return StateFacts(alone(outputs), alone(inputs), side)


def grid_side(own: int, theirs: int) -> int | None:
  """Returns the side of the square grid that positions are of, besides those of up to two tokens without a place.

  >>> grid_side(197, 577), grid_side(196, 576), grid_side(198, 578), grid_side(197, 500)
  (24, 24, 24, None)
  """
  for extra in range(3):
    if all(count > extra and math.isqrt(count - extra) ** 2 == count - extra for count in (own, theirs)):
      return math.isqrt(theirs - extra)
  return None


def resize_positions(state: Mapping[str, np.ndarray], own: int) -> dict[str, np.ndarray]:
  """Returns a state dict whose positions are those of `own` tokens, by bicubic interpolation of their grid.

  As timm does when it loads weights of another input size: low-pass filtered where the grid shrinks, tokens without a
  place left as they are.
  """
  resized = dict(state)
  for name, array in state.items():
    side = grid_side(own, array.shape[1]) if name.endswith(POSITIONS) and array.ndim == 3 else None
    if side is None or array.shape[1] == own:
      continue
    extra, target = array.shape[1] - side**2, math.isqrt(own - (array.shape[1] - side**2))
    grid = np.asarray(array[0, extra:], np.float32).reshape(side, side, -1)
    planes = [np.asarray(_resized(grid[:, :, plane], target)) for plane in range(grid.shape[2])]
    moved = np.stack(planes, -1).reshape(1, target**2, -1)
    resized[name] = np.concatenate([np.asarray(array[:, :extra], np.float32), moved], axis=1)
  return resized


def _resized(plane: np.ndarray, side: int) -> Any:
  return Image.fromarray(np.ascontiguousarray(plane)).resize((side, side), Image.Resampling.BICUBIC)
