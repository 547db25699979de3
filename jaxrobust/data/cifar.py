"""CIFAR-10 and -100 from any of their official forms, and the sets made to match them.

Pickles are read by a machine that can build arrays and nothing else (`core/array_pickles.py`), because a pickle can run
any code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.core.array_pickles import read_array_pickle
from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.core.reading import map_npy, read_file, reading
from jaxrobust.data.encoded import EncodedSource
from jaxrobust.data.imagenet import split_variant
from jaxrobust.data.npz import load_npz
from jaxrobust.data.source import ArraySource
from jaxrobust.data.stores import FolderStore

NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def read_pickle(path: Path) -> dict[str, Any]:
  """Returns the dictionary in a CIFAR batch file; keys are text, whichever Python wrote it."""
  what = f"{path}: not a CIFAR batch"
  data = read_file(path)
  try:
    with reading(what):
      batch = read_array_pickle(data, encoding="bytes")
  except CorruptFileError as error:
    raise CorruptFileError(str(error) if str(error).startswith(what) else f"{what} ({error})") from None
  if not isinstance(batch, dict):
    raise CorruptFileError(f"{path}: not a CIFAR batch (it holds {type(batch).__name__}, not a dictionary)")
  return {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in batch.items()}


def _from_batch(path: Path, label_key: str, side: int = 32) -> tuple[np.ndarray, np.ndarray]:
  """Reads images and labels of a batch file."""
  batch = read_pickle(path)
  for key in ("data", label_key):
    if key not in batch:
      raise CorruptFileError(f"{path}: not a CIFAR batch (it has no {key!r})")
  with reading(f"{path}: not a CIFAR batch"):
    return _from_rows(batch["data"], side), np.asarray(batch[label_key]).astype(np.int32)


def _from_rows(rows: np.ndarray, side: int = 32) -> np.ndarray:
  """Returns rows of (N, 3 side side), channel first, as images."""
  return np.ascontiguousarray(np.asarray(rows, np.uint8).reshape(-1, 3, side, side).transpose(0, 2, 3, 1))


def _from_binary(path: Path, label_bytes: int) -> tuple[np.ndarray, np.ndarray]:
  raw = np.frombuffer(read_file(path), np.uint8)
  if raw.size % (3072 + label_bytes):
    raise CorruptFileError(f"{path}: its size is no multiple of a record of {3072 + label_bytes} bytes")
  records = raw.reshape(-1, 3072 + label_bytes)
  return _from_rows(records[:, label_bytes:]), records[:, label_bytes - 1].astype(np.int32)


def load_cifar(folder: Path, classes: int, train: bool = False) -> ArraySource:
  """Loads CIFAR-10 or -100: the python version, the binary version, or `test.npz` / `train.npz`, whichever is there."""
  name = f"cifar{classes}" + ("-train" if train else "")
  batches = [f"data_batch_{i}" for i in range(1, 6)] if train else ["test_batch"]
  parts = batches if classes == 10 else ["train" if train else "test"]
  python, binary = folder / _PYTHON[classes], folder / _BINARY[classes]
  archive = folder / ("train.npz" if train else "test.npz")
  if python.is_dir():
    read = [_from_batch(python / part, "labels" if classes == 10 else "fine_labels") for part in parts]
  elif binary.is_dir():
    read = [_from_binary(binary / f"{part}.bin", 1 if classes == 10 else 2) for part in parts]
  elif archive.is_file():
    source = load_npz(archive)
    read = [(source.images, source.labels)]
  else:
    raise InputError(f"{folder} has none of {python.name}, {binary.name}, {archive.name}")
  images, labels = (np.concatenate(part) for part in zip(*read, strict=True))
  return ArraySource(name, images, labels, classes, NAMES if classes == 10 else None)


_PYTHON = {10: "cifar-10-batches-py", 100: "cifar-100-python"}
_BINARY = {10: "cifar-10-batches-bin", 100: "cifar-100-binary"}


def load_arrays(folder: Path, name: str, images: str, labels: str, classes: int = 10) -> ArraySource:
  """Loads a pair of `.npy` files, as CIFAR-10.1 has them."""
  return ArraySource(name, map_npy(folder / images), map_npy(folder / labels).astype(np.int32), classes, NAMES)


def load_corrupted(folder: Path, name: str, classes: int, variant: str) -> ArraySource:
  """Loads the official CIFAR-C files: one `.npy` per corruption, severities one after the other."""
  corruption, severity = split_variant(name, variant)
  images, labels = map_npy(folder / f"{corruption}.npy"), map_npy(folder / "labels.npy")
  n = len(images) // 5
  part = slice(n * (severity - 1), n * severity)
  return ArraySource(f"{name}:{variant}", images[part], labels[part].astype(np.int32), classes)


def load_by_class_name(folder: Path, name: str, exclude: str = "") -> EncodedSource:
  """Loads folders named like CIFAR-10's classes (CINIC-10, CIFAR-10-R) but files that start with `exclude`."""
  store = FolderStore(folder)
  files = [f for f in store.names if "/" in f and not (exclude and f.rsplit("/", 1)[1].startswith(exclude))]
  unknown = sorted({f.split("/")[0] for f in files} - set(NAMES))
  if unknown:
    raise InputError(f"{folder} has folders that are no class of CIFAR-10: {', '.join(unknown[:3])}")
  labels = np.array([NAMES.index(f.split("/")[0]) for f in files], np.int32)
  return EncodedSource(name, store, files, labels, 10, "none")


def load_imagenet16(folder: Path, classes: int = 120, train: bool = False) -> ArraySource:
  """Loads ImageNet16-120 (NAS-Bench-201): first classes of the 16x16 batches, whose labels count from 1."""
  read = []
  for part in [f"train_data_batch_{index}" for index in range(1, 11)] if train else ["val_data"]:
    images, labels = _from_batch(folder / part, "labels", 16)
    read.append((images[labels <= classes], labels[labels <= classes] - 1))
  images, labels = (np.concatenate(part) for part in zip(*read, strict=True))
  return ArraySource("imagenet16-120" + ("-train" if train else ""), images, labels, classes)
