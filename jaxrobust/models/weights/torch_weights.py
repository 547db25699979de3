"""PyTorch state dicts (as plain arrays) to flax variables, by name.

Our modules carry PyTorch's layer names, dots included where a scope is skipped (`features.conv0`); `layer1_0` is short
for `layer1.0`, and `branch__1` stands for `branch_1`. So the map is mechanical: kernels are transposed, batch-norm
statistics renamed. Anything missing, unused or of another shape is an error that lists it; nothing is ever left at its
initial value silently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import flax
import numpy as np
from flax import linen as nn

from jaxrobust.core.errors import InputError
from jaxrobust.models.registry import abstract_variables
from jaxrobust.models.weights.torch_names import match_names

_LEAF_NAMES = {"kernel": "weight", "scale": "weight", "mean": "running_mean", "var": "running_var"}


def torch_name(path: tuple[str, ...]) -> str:
  """Returns the PyTorch name of a flax variable.

  >>> torch_name(("params", "layer1_0", "bn1", "scale"))
  'layer1.0.bn1.weight'
  >>> torch_name(("params", "blocks.0.attn", "branch3x3__1", "kernel"))
  'blocks.0.attn.branch3x3_1.weight'
  """
  modules = [re.sub(r"(_?)_(?=\d+$)", lambda match: match[1] or ".", part) for part in path[1:-1]]
  return ".".join([*modules, _LEAF_NAMES.get(path[-1], path[-1])])


def torch_shape(path: tuple[str, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
  """Returns the shape PyTorch stores a flax variable in.

  >>> torch_shape(("params", "conv1", "kernel"), (3, 3, 16, 32))
  (32, 16, 3, 3)
  """
  if path[-1] == "kernel":
    return (shape[3], shape[2], shape[0], shape[1]) if len(shape) == 4 else shape[::-1]
  return tuple(shape)


def _to_flax(leaf: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
  if leaf != "kernel":
    # Factors per channel are stored with the axes that they are broadcast along.
    return array.reshape(shape) if array.ndim > len(shape) == 1 and array.size == shape[0] else array
  if array.ndim == 4 and len(shape) == 2 and array.shape[2:] == (1, 1):
    array = array[:, :, 0, 0]  # A 1×1 convolution is a matrix, and ports disagree on which to use.
  elif array.ndim == 2 and len(shape) == 4:
    array = array[:, :, None, None]
  return array.transpose(2, 3, 1, 0) if array.ndim == 4 else array.T


class TorchWeights(NamedTuple):
  """Flax variables, and the normalization that was stored with them (None where there was none)."""

  variables: Any
  mean: tuple[float, ...] | None
  std: tuple[float, ...] | None


def read_state(
  module: nn.Module,
  state: Mapping[str, np.ndarray],
  input_shape: tuple[int, int, int],
  rename: Mapping[str, str] | None = None,
  called: str = "",
) -> TorchWeights:
  """Returns flax variables for `module` from a flat PyTorch state dict, whatever prefix or spelling its names have.

  Args:
    module: an untrained linen module.
    state: name to array, in PyTorch's layouts (OIHW kernels).
    input_shape: (H, W, C), to find out the module's shapes without computing anything.
    rename: PyTorch layer names to use instead of ours ("0" for our "conv1", …).
    called: the name of the architecture, for messages.
  """
  wanted = flax.traverse_util.flatten_dict(abstract_variables(module, input_shape))
  names = {path: _renamed(torch_name(path), rename or {}) for path in wanted}
  match = match_names(names.values(), state)
  problems: list[str] = []
  variables = {}
  for path, leaf in wanted.items():
    name = match.found.get(names[path])
    if name is None:
      problems.append(f"missing {names[path]}")
      continue
    array = _to_flax(path[-1], np.asarray(state[name], np.float32), leaf.shape)
    if array.shape != leaf.shape:
      problems.append(f"{name} has shape {np.shape(state[name])}, expected {torch_shape(path, leaf.shape)}")
    variables[path] = array
  problems += [f"unused {name}" for name in match.unused]
  if problems:
    more = f" and {len(problems) - 6} more" if len(problems) > 6 else ""
    name = called or type(module).__name__
    raise InputError(
      f"these weights do not fit {name}: {'; '.join(problems[:6])}{more}{_remedy(problems, state, called)}"
    )
  mean, std = (None if s is None else tuple(float(x) for x in s) for s in (match.mean, match.std))
  return TorchWeights(flax.traverse_util.unflatten_dict(variables), mean, std)


def _remedy(problems: list[str], state: Mapping[str, np.ndarray], called: str) -> str:
  """Returns what to do about weights that do not fit, where their names tell."""
  text = " ".join(problems)
  if any(name.endswith("dist_token") for name in state) and "unused" in text and "dist" in text:
    return ". This is a distilled DeiT: --arch=deit_…_distilled_patch16_224"
  heads = ("head.", "fc.", "classifier.", "linear.", "output.")
  missing = [problem.removeprefix("missing ") for problem in problems if problem.startswith("missing ")]
  if missing and len(missing) == len(problems) and all(name.startswith(heads) for name in missing):
    return ". The file has no head, so there is nothing to classify with: save the network with its last layer"
  if any("trunk_output." in name for name in state):
    return ". RegNets of torchvision are --arch=regnet_x_400mf, regnet_x_800mf, regnet_x_1_6gf and regnet_x_3_2gf"
  if called and len(problems) > 2 and all(" has shape " in problem for problem in problems):  # More than a head.
    family = re.split(r"\d", called)[0]
    return f". All layers are there in other sizes: `jaxrobust list models '{family}*'` has this network's"
  return ""


def from_torch(
  module: nn.Module,
  state: Mapping[str, np.ndarray],
  input_shape: tuple[int, int, int],
  rename: Mapping[str, str] | None = None,
) -> Any:
  """Does `read_state` for a state dict without a normalization layer, which would be lost here."""
  weights = read_state(module, state, input_shape, rename)
  if weights.mean is not None:
    raise InputError("these weights hold a normalization layer, which belongs to the classifier; use read_state")
  return weights.variables


def _renamed(name: str, rename: Mapping[str, str]) -> str:
  layer, _, leaf = name.rpartition(".")
  return f"{rename.get(layer, layer)}.{leaf}" if layer else name
