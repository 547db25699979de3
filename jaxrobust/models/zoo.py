"""Trained classifiers on disk: weights by orbax, and a metadata file that says what they are.

Nothing in a checkpoint is executed: the architecture is looked up by name in our registry, the weights are
arrays. A folder is complete once its metadata file exists, which is written last and atomically.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import os
import pathlib
import uuid
from typing import Any

import flax
import jax
import numpy as np
import orbax.checkpoint as ocp

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import CorruptFileError, InputError, StorageError, first_line
from jaxrobust.core.files import write_json
from jaxrobust.core.validation import is_number
from jaxrobust.models.identity import identity, is_ours
from jaxrobust.models.portable import SHIPPED, WEIGHTS, read_portable, shipped, write_weights
from jaxrobust.models.registry import MODELS, abstract_variables, make_model

_METADATA = "classifier.json"
_WEIGHTS = "weights"


def fingerprint(classifier: Classifier) -> str:
  """A short hash over every weight, name, shape and dtype: equal networks, equal fingerprints.

  Of an architecture of this package that is all; of any other function or module also what it computes (`identity`).
  Where that cannot be known, each fingerprint is a new one, so that no result is taken for that of another network.
  """
  digest = hashlib.sha256(f"{classifier.num_classes} {classifier.randomised}".encode())
  if not is_ours(classifier.module):
    known = identity(classifier.apply)
    if known is None:
      return f"unknown-{uuid.uuid4().hex[:16]}"
    digest.update(known.encode())
  for path, leaf in jax.tree_util.tree_leaves_with_path(classifier.variables):
    array = np.ascontiguousarray(leaf)
    digest.update(f"{jax.tree_util.keystr(path)} {array.shape} {array.dtype}".encode())
    digest.update(array.tobytes())
  return digest.hexdigest()[:16]


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
) -> pathlib.Path:
  """Writes weights and metadata; `notes` (how it was trained) are kept and shown, never interpreted."""
  path = pathlib.Path(folder).absolute()
  metadata = {
    "arch": arch,
    "num_classes": num_classes,
    "mean": mean,
    "std": std,
    "options": options or {},
    "notes": notes or {},
  }
  try:
    path.mkdir(parents=True, exist_ok=True)
    with _checkpointer() as checkpointer:
      checkpointer.save(path / _WEIGHTS, jax.device_get(variables), force=True)
      checkpointer.wait_until_finished()
    write_json(path / _METADATA, metadata)
  except OSError as error:
    raise StorageError(f"cannot write the classifier to {path}: {error.strerror or error}") from None
  return path


def _checkpointer() -> ocp.StandardCheckpointer:
  """Orbax for this process alone: among several processes it would otherwise wait for all of them."""
  if jax.process_count() == 1:
    return ocp.StandardCheckpointer()
  me = jax.process_index()
  alone = ocp.options.MultiprocessingOptions(
    primary_host=me, active_processes={me}, barrier_sync_key_prefix=f"classifier{me}"
  )
  return ocp.StandardCheckpointer(multiprocessing_options=alone)


def read_metadata(folder: str | os.PathLike) -> dict[str, Any] | None:
  """The metadata of a classifier folder; None where there is no finished classifier."""
  path = pathlib.Path(folder) / _METADATA
  try:
    metadata = json.loads(path.read_text())
    # Missing entries are damage, not defaults.
    kinds = {"arch": str, "num_classes": int, "mean": object, "std": object, "options": dict, "notes": dict}
    for key, kind in kinds.items():
      if not isinstance(metadata[key], kind):
        raise TypeError(f"{key} is {metadata[key]!r}")
    for key in ("mean", "std"):
      if not _is_colour(metadata[key]):
        raise TypeError(f"{key} is {metadata[key]!r}")
    return {key: metadata[key] for key in kinds}
  except (FileNotFoundError, NotADirectoryError):
    return None
  except (OSError, ValueError, KeyError, TypeError) as error:
    raise CorruptFileError(f"{path} is not a classifier's metadata: {error!r}") from None


def _is_colour(value: Any) -> bool:
  """Whether a value is a finite number, or a list of one for each channel."""
  numbers = value if isinstance(value, list) and value else [value]
  return all(is_number(x, int | float) and math.isfinite(x) for x in numbers)


def find_classifier(path: str | os.PathLike) -> pathlib.Path:
  """The folder of a classifier, given as a path or as the name of one that ships with this package."""
  folder = pathlib.Path(path).absolute()
  name = os.fspath(path)
  return SHIPPED / name if not folder.exists() and name in shipped() else folder


def load_classifier(path: str | os.PathLike) -> Classifier:
  """A classifier from a folder that `save_classifier` or `save_portable` wrote, or one of the package by name."""
  folder = find_classifier(path)
  metadata = read_metadata(folder)
  if metadata is None:
    if not folder.exists():
      near = difflib.get_close_matches(os.fspath(path), shipped(), 3, 0.5)
      hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
      raise InputError(f"no classifier at {path}: the folder does not exist{hint}")
    raise InputError(f"no classifier at {path}: {_METADATA} is missing (was the training finished?)")
  try:
    module = make_model(metadata["arch"], metadata["num_classes"], **metadata["options"])
  except TypeError as error:
    raise CorruptFileError(f"{folder / _METADATA} is not a classifier's metadata: {error}") from None
  shape = MODELS[metadata["arch"]].input_size
  abstract = abstract_variables(module, shape)
  variables = read_portable(folder, abstract) if (folder / WEIGHTS).is_file() else _restore(folder, abstract)
  return Classifier.from_module(
    module, flax.core.unfreeze(variables), mean=metadata["mean"], std=metadata["std"], input_shape=shape
  )


def _restore(folder: pathlib.Path, abstract: Any) -> Any:
  """Orbax' weights."""
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
  classifier: str | os.PathLike, folder: str | os.PathLike, notes: dict[str, Any] | None = None
) -> pathlib.Path:
  """Writes a saved classifier again as two small files; `notes` are added to (or replace) those it has."""
  variables = load_classifier(classifier).variables["module"]
  metadata = read_metadata(find_classifier(classifier))
  assert metadata is not None  # What has been loaded has metadata.
  metadata["notes"] = {**metadata["notes"], **(notes or {})}
  write_weights(folder, variables)
  path = pathlib.Path(folder)
  write_json(path / _METADATA, metadata)
  return path
