"""Trained classifiers on disk: weights by orbax, and a metadata file that says what they are.

Nothing in a checkpoint is executed: the architecture is looked up by name in our registry, the weights are
arrays. A folder is complete once its metadata file exists, which is written last and atomically.
"""

from __future__ import annotations

import difflib
import hashlib
import math
import os
import pathlib
from typing import Any

import flax
import jax
import numpy as np
import orbax.checkpoint as ocp
from flax import linen as nn

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.defense import defenses_of, undefended
from jaxrobust.core.errors import CorruptFileError, InputError, StorageError, first_line
from jaxrobust.core.files import write_json
from jaxrobust.core.modules import LinenApply
from jaxrobust.core.reading import LARGEST_TEXT, loads, read_if_there
from jaxrobust.core.validation import is_number
from jaxrobust.models.registry import MODELS, abstract_variables, make_model
from jaxrobust.models.weights.portable import SHIPPED, WEIGHTS, read_portable, shipped, write_weights

_METADATA = "classifier.json"
_WEIGHTS = "weights"
# ImageNet-21K has 21,843.
MOST_CLASSES = 10_000_000
# Along a side of an image.
MOST_PIXELS = 4096
# How the fingerprints of functions begin that nobody gave a name.
UNNAMED = "unnamed-"


def fingerprint(classifier: Classifier) -> str:
  """Returns a short hash over every weight, name, shape and dtype: equal networks, equal fingerprints.

  Of an architecture of this package that is all; of any other function or module also the name and version that its
  maker gave. Without a name nothing tells it from another one with these weights, so its fingerprint says `UNNAMED`.
  Of a defended classifier it is that of the one inside, and the defenses with all their parameters.
  """
  digest = hashlib.sha256(f"{classifier.num_classes} {classifier.randomized}".encode())
  inner, network = [], undefended(classifier)
  for defense in defenses_of(classifier):
    digest.update(f"{defense.name} {sorted(defense.config().items())}".encode())
  # What it is computed in is no other network's: rounded weights are hashed as they are.
  apply, ours = network.apply, is_ours(network.module)
  if isinstance(apply, LinenApply) and apply.dtype is not None:
    ours = is_ours(apply.module)
    digest.update(f"in {np.dtype(apply.dtype).name}".encode())
  if not ours:
    digest.update(f"called {network.called!r}".encode())
  is_classifier = lambda leaf: isinstance(leaf, Classifier)
  for path, leaf in jax.tree_util.tree_leaves_with_path(classifier.variables, is_leaf=is_classifier):
    if isinstance(leaf, Classifier):  # A member of an ensemble.
      inner.append(fingerprint(leaf))
      digest.update(inner[-1].encode())
      continue
    array = np.ascontiguousarray(leaf)
    digest.update(f"{jax.tree_util.keystr(path)} {array.shape} {array.dtype}".encode())
    digest.update(array.tobytes())
  named = (ours or network.called) and not any(one.startswith(UNNAMED) for one in inner)
  return ("" if named else UNNAMED) + digest.hexdigest()[:16]


def is_ours(module: Any) -> bool:
  """Tells whether a linen module is an architecture of this package through and through."""
  if not isinstance(module, nn.Module) or type(module).__module__.partition(".")[0] != __name__.partition(".")[0]:
    return False
  parts = (getattr(module, name) for name in module.__dataclass_fields__ if name not in ("parent", "name"))
  return all(is_ours(part) for part in parts if isinstance(part, nn.Module))


def save_classifier(
  folder: str | os.PathLike,
  arch: str,
  variables: Any,
  *,
  num_classes: int,
  mean: tuple[float, ...] | float = 0.0,
  std: tuple[float, ...] | float = 1.0,
  options: dict[str, Any] | None = None,
  notes: dict[str, Any] | None = None,
  defense: str = "",
  portable: bool = False,
  input_shape: tuple[int, int, int] | None = None,
) -> pathlib.Path:
  """Writes weights and metadata; `notes` (how it was trained) are kept and shown, never interpreted.

  `defense` is the text of the defenses that the classifier stands behind, as `jpeg,quality=75`. `portable` weights are
  one small file, as `save_portable` writes them; others Orbax's. `input_shape` is that of its images where
  it is not the architecture's.
  """
  path = pathlib.Path(folder).absolute()
  metadata = {
    "arch": arch,
    "num_classes": num_classes,
    "mean": mean,
    "std": std,
    "options": options or {},
    "notes": notes or {},
    **({"defense": defense} if defense else {}),
    **({} if input_shape is None else {"input_shape": list(input_shape)}),
  }
  try:
    path.mkdir(parents=True, exist_ok=True)
    if portable:
      write_weights(path, jax.device_get(variables))
    else:
      _save_checkpoint(path, variables)
    write_json(path / _METADATA, metadata)
  except OSError as error:
    raise StorageError(f"cannot write the classifier to {path}: {error.strerror or error}") from None
  return path


def _save_checkpoint(path: pathlib.Path, variables: Any) -> None:
  with _checkpointer() as checkpointer:
    checkpointer.save(path / _WEIGHTS, jax.device_get(variables), force=True)
    checkpointer.wait_until_finished()


def _checkpointer() -> ocp.StandardCheckpointer:
  """Makes Orbax for this process alone: among several processes it would otherwise wait for all of them."""
  if jax.process_count() == 1:
    return ocp.StandardCheckpointer()
  me = jax.process_index()
  alone = ocp.options.MultiprocessingOptions(
    primary_host=me, active_processes={me}, barrier_sync_key_prefix=f"classifier{me}"
  )
  return ocp.StandardCheckpointer(multiprocessing_options=alone)


def read_metadata(folder: str | os.PathLike) -> dict[str, Any] | None:
  """Reads the metadata of a classifier folder; None where there is no finished classifier."""
  path = pathlib.Path(folder) / _METADATA
  try:
    raw = read_if_there(path, LARGEST_TEXT)
    if raw is None:
      return None
    metadata = loads(raw)
    # Missing entries are damage, not defaults.
    kinds = {"arch": str, "num_classes": int, "mean": object, "std": object, "options": dict, "notes": dict}
    for key, kind in kinds.items():
      if not isinstance(metadata[key], kind):
        raise TypeError(f"{key} is {metadata[key]!r}")
    for key in ("mean", "std"):
      if not _is_color(metadata[key]):
        raise TypeError(f"{key} is {metadata[key]!r}")
    if not is_number(metadata["num_classes"], int) or not 1 <= metadata["num_classes"] <= MOST_CLASSES:
      raise TypeError(f"num_classes is {metadata['num_classes']!r}")
    defense = metadata.get("defense", "")  # Folders of earlier versions have none.
    if not isinstance(defense, str):
      raise TypeError(f"defense is {defense!r}")
    shape = metadata.get("input_shape")
    if shape is not None and not _is_shape(shape):
      raise TypeError(f"input_shape is {shape!r}")
    more = {} if shape is None else {"input_shape": shape}
    return {**{key: metadata[key] for key in kinds}, "defense": defense, **more}
  except (ValueError, KeyError, TypeError) as error:
    raise CorruptFileError(f"{path} is not a classifier's metadata: {error!r}") from None


def _is_shape(value: Any) -> bool:
  """Returns whether a value is the shape of an image."""
  return isinstance(value, list) and len(value) == 3 and all(is_number(n, int) and 1 <= n <= MOST_PIXELS for n in value)


def _is_color(value: Any) -> bool:
  """Returns whether a value is a finite number, or a list of one for each channel."""
  numbers = value if isinstance(value, list) and value else [value]
  return all(is_number(x, int | float) and math.isfinite(x) for x in numbers)


def find_classifier(path: str | os.PathLike) -> pathlib.Path:
  """Returns the folder of a classifier, given as a path or as the name of one that ships with this package."""
  folder = pathlib.Path(path).absolute()
  name = os.fspath(path)
  return SHIPPED / name if name in shipped() and not folder.exists() else folder


def load_classifier(path: str | os.PathLike, *, bare: bool = False) -> Classifier:
  """Loads a classifier from a folder of `save_classifier` or `save_portable`, or one of the package by name.

  One that is stored with a defense is loaded by `jaxrobust.load_classifier`, or `bare`, without it.
  """
  folder = find_classifier(path)
  metadata = read_metadata(folder)
  if metadata is None:
    if not folder.exists():
      near = difflib.get_close_matches(os.fspath(path), shipped(), 3, 0.5)
      hint = (
        f"; did you mean {' or '.join(map(repr, near))}?" if near else " (`jaxrobust list zoo` names those that ship)"
      )
      raise InputError(f"no classifier at {path}: the folder does not exist{hint}")
    raise InputError(f"no classifier at {path}: {_METADATA} is missing (was the training finished?)")
  if metadata["defense"] and not bare:
    raise InputError(f"{path} is stored with the defense {metadata['defense']!r}: use jaxrobust.load_classifier")
  try:
    module = make_model(metadata["arch"], metadata["num_classes"], **metadata["options"])
  except TypeError as error:
    raise CorruptFileError(f"{folder / _METADATA} is not a classifier's metadata: {error}") from None
  shape = input_shape_of(metadata)
  for key in ("mean", "std"):
    if isinstance(metadata[key], list) and len(metadata[key]) not in (1, shape[-1]):
      given = f"{key} has {len(metadata[key])} numbers for {shape[-1]} channels"
      raise CorruptFileError(f"{folder / _METADATA} is not a classifier's metadata: {given}")
  abstract = abstract_variables(module, shape)
  variables = read_portable(folder, abstract) if (folder / WEIGHTS).is_file() else _restore(folder, abstract)
  return Classifier.from_module(
    module, flax.core.unfreeze(variables), mean=metadata["mean"], std=metadata["std"], input_shape=shape
  )


def input_shape_of(metadata: dict[str, Any]) -> tuple[int, int, int]:
  """Returns the shape of a classifier's images: its own, or that of its architecture."""
  height, width, channels = metadata.get("input_shape") or MODELS[metadata["arch"]].input_size
  return height, width, channels


def _restore(folder: pathlib.Path, abstract: Any) -> Any:
  """Reads Orbax' weights."""
  # Restoring onto this process's first device works whatever the machine the weights were saved on.
  here = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
  target = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=here), abstract)
  try:
    with _checkpointer() as checkpointer:
      return checkpointer.restore(folder / _WEIGHTS, target)
  except Exception as error:  # Orbax raises bare Exceptions for damaged files.
    reason = first_line(error)
    raise CorruptFileError(f"the weights in {folder} cannot be read: {reason}") from None


def save_portable(
  classifier: str | os.PathLike,
  folder: str | os.PathLike,
  notes: dict[str, Any] | None = None,
  defense: str | None = None,
) -> pathlib.Path:
  """Writes a saved classifier again as two small files.

  Args:
    notes: added to (or in place of) those it has.
    defense: that it is stored with; its own by default.
  """
  variables = load_classifier(classifier, bare=True).variables["module"]
  metadata = read_metadata(find_classifier(classifier))
  assert metadata is not None  # What has been loaded has metadata.
  metadata["notes"] = {**metadata["notes"], **(notes or {})}
  metadata["defense"] = metadata["defense"] if defense is None else defense
  if not metadata["defense"]:
    del metadata["defense"]
  write_weights(folder, variables)
  path = pathlib.Path(folder)
  write_json(path / _METADATA, metadata)
  return path
