"""Data sets by name. A new one is a file with a `Dataset`, and one line here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.core.registry import Registry
from jaxrobust.data import digits32
from jaxrobust.data.catalogue import CATALOGUE, data_root
from jaxrobust.data.digit_shifts import SHIFTS
from jaxrobust.data.encoded import EncodedSource, image_folder
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
# Beside the data sets: OODRobustBench's lists of files in the order it takes them (its datasets/image_ids).
ID_LISTS = "image_ids"


def load_data(name: str, data_dir: str | Path | None = None, preprocess: str = "") -> DataSource:
  """Loads the data set of that name.

  `npz:PATH` reads any numpy archive, `folder:PATH` any folder of one folder per class (ImageNet-21K too) and
  `tfds:NAME:SPLIT` what TensorFlow Datasets has prepared;
  `cifar10-c:fog-3` is a variant of a set that has some; `imagenet@5000` a pinned subset. Sets that are not embedded are
  looked for in `data_dir`, or in $JAXROBUST_DATASETS.

  Args:
    name: of the data set.
    data_dir: the folder of all data sets.
    preprocess: how pictures become arrays (`resize256-crop224`), where they are files of any size; the set's own way
      by default.

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
  source = _find(name, data_dir, preprocess)
  if not len(source):
    raise InputError(f"{name} has no images")
  return source


def _find(name: str, data_dir: str | Path | None, preprocess: str) -> DataSource:
  if name.startswith(PREFIX):
    return load_npz(name.removeprefix(PREFIX))
  if name.startswith(FOLDER_PREFIX):
    return _seen_at(image_folder(name.removeprefix(FOLDER_PREFIX)), preprocess)
  if name.startswith(TFDS_PREFIX):
    return load_tfds(name.removeprefix(TFDS_PREFIX), data_dir)
  if name.endswith(".npz"):
    raise UnknownNameError(f"unknown dataset {name!r}; did you mean '{PREFIX}{name}'?")
  name, _, count = name.partition("@")
  source = _seen_at(_load(name, data_dir), preprocess)
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
  root = data_root(data_dir, base)
  folder = root / entry.folder
  if not folder.is_dir():
    raise InputError(f"there is no folder {folder}; get {base} from {entry.source}: {entry.get}")
  source = entry.load(folder, variant=variant) if entry.variants else entry.load(folder)
  listing = root / ID_LISTS / f"{entry.id_list}_image_ids.txt"
  if entry.id_list and listing.is_file() and isinstance(source, EncodedSource):
    return replace(source, listed=tuple(listing.read_text().split("\n")))
  return source


def _seen_at(source: DataSource, preprocess: str) -> DataSource:
  """Returns a source with another preprocessing, if one is asked for and it has any."""
  return source.seen_at(preprocess) if preprocess and isinstance(source, EncodedSource) else source


def list_datasets(pattern: str = "*") -> list[str]:
  """Returns the names of the data sets that match a shell pattern.

  Example:
    >>> list_datasets("digits32*n")
    ['digits32-train']
  """
  return DATASETS.matching(pattern)
