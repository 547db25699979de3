"""Data sets by name. A new one is a file with a `Dataset`, and one line here."""

from __future__ import annotations

from pathlib import Path

from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.core.registry import Registry
from jaxrobust.data import digits32
from jaxrobust.data.catalogue import CATALOGUE, data_root
from jaxrobust.data.digit_shifts import SHIFTS
from jaxrobust.data.encoded import image_folder
from jaxrobust.data.npz import PREFIX, load_npz
from jaxrobust.data.source import Dataset, DataSource
from jaxrobust.data.stored_sequences import STORED_SEQUENCES
from jaxrobust.data.subsets import pinned
from jaxrobust.data.tfds import PREFIX as TFDS_PREFIX
from jaxrobust.data.tfds import load_tfds

DATASETS: Registry[Dataset] = Registry("dataset")
DATASETS.register("digits32")(digits32.TEST)
DATASETS.register("digits32-train")(digits32.TRAIN)
for _name, _entry in {**SHIFTS, **CATALOGUE, **STORED_SEQUENCES}.items():
  DATASETS.register(_name)(_entry)

FOLDER_PREFIX = "folder:"


def load_data(name: str, data_dir: str | Path | None = None) -> DataSource:
  """The data set of that name.

  `npz:PATH` reads any numpy archive, `folder:PATH` any folder of one folder per class (ImageNet-21K too) and
  `tfds:NAME:SPLIT` what TensorFlow Datasets has prepared;
  `cifar10-c:fog-3` is a variant of a set that has some; `imagenet@5000` a pinned subset. Sets that are not embedded are
  looked for in `data_dir`, or in $JAXROBUST_DATASETS.

  Example:
    >>> source = load_data("digits32")
    >>> len(source), source.images.shape[1:], source.num_classes
    (500, (32, 32, 3), 10)
    >>> len(load_data("digits32@100"))
    100
    >>> load_data("digits")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    jaxrobust.core.errors.UnknownNameError: unknown dataset 'digits'; did you mean 'digits32'...
  """
  source = _find(name, data_dir)
  if not len(source):
    raise InputError(f"{name} has no images")
  return source


def _find(name: str, data_dir: str | Path | None) -> DataSource:
  if name.startswith(PREFIX):
    return load_npz(name.removeprefix(PREFIX))
  if name.startswith(FOLDER_PREFIX):
    return image_folder(name.removeprefix(FOLDER_PREFIX))
  if name.startswith(TFDS_PREFIX):
    return load_tfds(name.removeprefix(TFDS_PREFIX), data_dir)
  if name.endswith(".npz"):
    raise UnknownNameError(f"unknown dataset {name!r}; did you mean '{PREFIX}{name}'?")
  name, _, count = name.partition("@")
  source = _load(name, data_dir)
  if not count:
    return source
  if not count.isdigit():
    raise InputError(f"a subset is written {name}@1000, not {name}@{count}")
  return pinned(source, int(count))


def _load(name: str, data_dir: str | Path | None) -> DataSource:
  base, _, variant = name.partition(":")
  entry = DATASETS[base]
  if variant and not entry.variants:
    raise InputError(f"{base} has no variants; got {variant!r}")
  if not entry.folder:
    return entry.load()
  folder = data_root(data_dir) / entry.folder
  if not folder.is_dir():
    raise InputError(f"there is no folder {folder}; get {base} from {entry.source}: {entry.get}")
  return entry.load(folder, variant=variant) if entry.variants else entry.load(folder)


def list_datasets(pattern: str = "*") -> list[str]:
  """Returns the names of the data sets that match a shell pattern.

  Example:
    >>> list_datasets("digits32*n")
    ['digits32-train']
  """
  return DATASETS.matching(pattern)
