"""Other people's weights as our classifiers: a weight file in, a classifier folder out."""

from __future__ import annotations

import os
import pathlib
from typing import Any, NamedTuple

from jaxrobust.core.errors import InputError
from jaxrobust.models.registry import MODELS, count_params, make_model
from jaxrobust.models.weights.torch_names import unwrap
from jaxrobust.models.weights.torch_weights import read_state
from jaxrobust.models.weights.weight_files import read_hashed
from jaxrobust.models.zoo import save_classifier


class Conversion(NamedTuple):
  """The folder a classifier was written to, and what went into it."""

  folder: pathlib.Path
  params: int
  mean: tuple[float, ...]
  std: tuple[float, ...]
  normalization: str


def convert_checkpoint(
  checkpoint: str | os.PathLike,
  arch: str,
  out: str | os.PathLike,
  *,
  num_classes: int | None = None,
  sha256: str = "",
  key: str = "",
  mean: tuple[float, ...] | None = None,
  std: tuple[float, ...] | None = None,
  options: dict[str, Any] | None = None,
) -> Conversion:
  """Reads a .pth, .pt, .th, .tar, .safetensors or .npz file into the architecture called `arch`.

  Args:
    checkpoint: the file; nothing in it is executed.
    arch: a name of `list_models()`.
    out: folder for `load_classifier`.
    num_classes: of the checkpoint's head, where it is not the architecture's usual number.
    sha256: the file's hash, or its first 8 or more digits.
    key: entry of the checkpoint that holds the weights; found by itself otherwise, averaged (EMA) weights first.
    mean, std: normalization; by default the one stored in the checkpoint, else the architecture's.
    options: further options of the architecture.
  """
  if (mean is None) != (std is None):
    raise InputError("mean and std belong together; give both or neither")
  spec, module = MODELS[arch], make_model(arch, num_classes, **(options or {}))
  content, digest = read_hashed(checkpoint, sha256)
  state, entry = unwrap(content, key)
  weights = read_state(module, state, spec.input_size)
  source = "given"
  if mean is None or std is None:
    source = "the architecture's" if weights.mean is None or weights.std is None else "stored in the checkpoint"
    mean, std = (weights.mean or spec.mean), (weights.std or spec.std)
  classes = spec.num_classes if num_classes is None else num_classes
  folder = save_classifier(
    out,
    arch,
    weights.variables,
    num_classes=classes,
    mean=mean,
    std=std,
    options=options,
    notes={"converted_from": pathlib.Path(checkpoint).name, "sha256": digest, "entry": entry, "normalization": source},
  )
  return Conversion(folder, count_params(arch, classes), mean, std, source)
