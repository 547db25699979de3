"""PyTorch state dicts (as plain arrays) to flax variables, by name.

Our modules carry PyTorch's layer names, dots included where a scope is skipped (`features.conv0`); `layer1_0` is short
for `layer1.0`, and `branch__1` stands for `branch_1`. So the map is mechanical: kernels are transposed, batch-norm
statistics renamed. Anything missing, unused or of another shape is an error that lists it; nothing is ever left at its
initial value silently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import flax
import numpy as np
from flax import linen as nn

from jaxrobust.core.errors import InputError
from jaxrobust.models.registry import abstract_variables

_LEAF_NAMES = {"kernel": "weight", "scale": "weight", "mean": "running_mean", "var": "running_var"}
# Counters that PyTorch stores and nothing reads.
_IGNORED = re.compile(r"(^|\.)num_batches_tracked$")


def torch_name(path: tuple[str, ...]) -> str:
  """The PyTorch name of a flax variable.

  >>> torch_name(("params", "layer1_0", "bn1", "scale"))
  'layer1.0.bn1.weight'
  >>> torch_name(("params", "blocks.0.attn", "branch3x3__1", "kernel"))
  'blocks.0.attn.branch3x3_1.weight'
  """
  modules = [re.sub(r"(_?)_(?=\d+$)", lambda match: match[1] or ".", part) for part in path[1:-1]]
  return ".".join([*modules, _LEAF_NAMES.get(path[-1], path[-1])])


def torch_shape(path: tuple[str, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
  """The shape PyTorch stores a flax variable in.

  >>> torch_shape(("params", "conv1", "kernel"), (3, 3, 16, 32))
  (32, 16, 3, 3)
  """
  if path[-1] == "kernel":
    return (shape[3], shape[2], shape[0], shape[1]) if len(shape) == 4 else shape[::-1]
  return tuple(shape)


def _to_flax(leaf: str, array: np.ndarray) -> np.ndarray:
  if leaf == "kernel" and array.ndim == 4:
    return array.transpose(2, 3, 1, 0)
  if leaf == "kernel" and array.ndim == 2:
    return array.T
  return array


def from_torch(
  module: nn.Module,
  state: Mapping[str, np.ndarray],
  input_shape: tuple[int, int, int],
  rename: Mapping[str, str] | None = None,
) -> Any:
  """Flax variables for `module` from a flat PyTorch state dict.

  Args:
    module: an untrained linen module.
    state: name to array, in PyTorch's layouts (OIHW kernels).
    input_shape: (H, W, C), to find out the module's shapes without computing anything.
    rename: PyTorch name prefixes to use instead of ours ("0" for our "conv1", …).
  """
  wanted = flax.traverse_util.flatten_dict(abstract_variables(module, input_shape))
  unused = {name for name in state if not _IGNORED.search(name)}
  problems: list[str] = []
  variables = {}
  for path, shape in wanted.items():
    name = _renamed(torch_name(path), rename or {})
    if name not in state:
      problems.append(f"missing {name}")
      continue
    unused.discard(name)
    array = _to_flax(path[-1], np.asarray(state[name], np.float32))
    if array.shape != shape.shape:
      problems.append(f"{name} has shape {array.shape}, expected {shape.shape}")
    variables[path] = array
  problems += [f"unused {name}" for name in sorted(unused)]
  if problems:
    more = f" and {len(problems) - 6} more" if len(problems) > 6 else ""
    raise InputError(f"these weights do not fit {type(module).__name__}: {'; '.join(problems[:6])}{more}")
  return flax.traverse_util.unflatten_dict(variables)


def _renamed(name: str, rename: Mapping[str, str]) -> str:
  layer, _, leaf = name.rpartition(".")
  return f"{rename.get(layer, layer)}.{leaf}" if layer else leaf
