"""Data sets that have to be downloaded: where they come from, what they must look like, and how they are read.

They live in folders below $JAXROBUST_DATASETS (or `data_dir`). Nothing is downloaded by this library: licenses differ,
links rot, and a half-arrived file is worse than none. `jaxrobust data check NAME` says what is missing.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

from jaxrobust.core.errors import InputError
from jaxrobust.data import cifar, small
from jaxrobust.data.imagenet_sets import CORRUPTED, IMAGENET_SETS
from jaxrobust.data.source import Dataset

_MIT, _RESEARCH = "MIT", "research only; see the source"
_TORONTO = "https://www.cs.toronto.edu/~kriz/cifar.html"


def data_root(data_dir: str | Path | None = None, wanted: str = "this data set") -> Path:
  """Returns the folder of all data sets: `data_dir`, or $JAXROBUST_DATASETS; `wanted` is the one that is looked for."""
  named = data_dir or os.environ.get("JAXROBUST_DATASETS")
  if not named:
    raise InputError(f"{wanted} is not embedded: set JAXROBUST_DATASETS (or data_dir) to the folder that holds it")
  return Path(named).expanduser()


def _cifar(classes: int, train: bool, md5: dict[str, str]) -> Dataset:
  part = "training" if train else "test"
  return Dataset(
    functools.partial(cifar.load_cifar, classes=classes, train=train),
    f"CIFAR-{classes}, {part} part",
    50_000 if train else 10_000,
    classes,
    _TORONTO,
    _RESEARCH,
    folder=f"cifar{classes}",
    get=f"unpack cifar-{classes}-python.tar.gz or the binary version there, or put test.npz and train.npz there",
    md5=md5,
    class_map="the authors' order",
  )


def _imagenet16(train: bool) -> Dataset:
  return Dataset(
    functools.partial(cifar.load_imagenet16, train=train),
    f"ImageNet16-120 of NAS-Bench-201, {'training' if train else 'validation'} part",
    151_700 if train else 6000,
    120,
    "https://github.com/D-X-Y/NAS-Bench-201",
    _RESEARCH,
    "ImageNet16",
    "put train_data_batch_1 to _10 there" if train else "put val_data there",
    class_map="the first 120 of the downsampled ImageNet's order",
  )


def _arrays(name: str, text: str, size: int, source: str, images: str, labels: str) -> Dataset:
  load = functools.partial(cifar.load_arrays, name=name, images=images, labels=labels)
  return Dataset(load, text, size, 10, source, _MIT, name, f"put {images} and {labels} there", class_map="CIFAR-10's")


def _corrupted(classes: int) -> Dataset:
  name = f"cifar{classes}-c"
  load = functools.partial(cifar.load_corrupted, name=name, classes=classes)
  text = f"CIFAR-{classes}-C, the official files; {name}:fog-3 is one corruption and severity"
  get = f"unpack CIFAR-{classes}-C.tar there (one .npy per corruption, and labels.npy)"
  return Dataset(load, text, 10_000, classes, CORRUPTED, "CC BY 4.0", name, get, variants=True)


def _load_cifar102(folder: Path) -> cifar.ArraySource:
  from jaxrobust.data.npz import load_npz

  source = load_npz(folder / "cifar102_test.npz")
  return cifar.ArraySource("cifar10.2", source.images, source.labels, 10, cifar.NAMES)


_CIFAR_101 = "https://github.com/modestyachts/CIFAR-10.1"

CATALOGUE: dict[str, Dataset] = {
  "cifar10": _cifar(10, False, {"cifar-10-batches-py/test_batch": "40351d587109b95175f43aff81a1287e"}),
  "cifar10-train": _cifar(10, True, {"cifar-10-batches-py/data_batch_1": "c99cafc152244af753f735de768cd75f"}),
  "cifar100": _cifar(100, False, {"cifar-100-python/test": "f0ef6b0ae62326f3e7ffdfab6717acfc"}),
  "cifar100-train": _cifar(100, True, {"cifar-100-python/train": "16019d7e3df5f24257cddd939b257f8d"}),
  "cifar10.1-v4": _arrays(
    "cifar10.1-v4",
    "CIFAR-10.1, version 4",
    2021,
    _CIFAR_101,
    "cifar10.1_v4_data.npy",
    "cifar10.1_v4_labels.npy",
  ),
  "cifar10.1-v6": _arrays(
    "cifar10.1-v6",
    "CIFAR-10.1, version 6 (balanced)",
    2000,
    _CIFAR_101,
    "cifar10.1_v6_data.npy",
    "cifar10.1_v6_labels.npy",
  ),
  "cifar10.2": Dataset(
    _load_cifar102,
    "CIFAR-10.2, test part",
    2000,
    10,
    "https://github.com/modestyachts/cifar-10.2",
    _MIT,
    "cifar10.2",
    "put cifar102_test.npz there",
    class_map="CIFAR-10's",
  ),
  "cinic10": Dataset(
    functools.partial(cifar.load_by_class_name, name="cinic10", exclude="cifar10-"),
    "CINIC-10, test part, images from ImageNet only",
    70_000,
    10,
    "https://datashare.ed.ac.uk/handle/10283/3192",
    "CC BY 4.0",
    "cinic10/test",
    "unpack CINIC-10.tar.gz there",
    class_map="folders are CIFAR-10's names",
    id_list="CINIC-10",
  ),
  "cifar10-r": Dataset(
    functools.partial(cifar.load_by_class_name, name="cifar10-r"),
    "CIFAR-10-R: renditions of 8 of CIFAR-10's classes",
    6837,
    10,
    "https://github.com/TreeLLi/cifar10-r",
    _RESEARCH,
    "cifar-10-r",
    "unpack it there",
    class_map="folders are CIFAR-10's names",
    id_list="CIFAR10-R",
  ),
  "cifar10-c": _corrupted(10),
  "cifar100-c": _corrupted(100),
  "fashion-mnist": Dataset(
    small.load_fashion_mnist,
    "Fashion-MNIST, test part",
    10_000,
    10,
    "https://github.com/zalandoresearch/fashion-mnist",
    _MIT,
    "fashion-mnist",
    "put t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz there (Debian: dataset-fashion-mnist)",
    md5={"t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79"},
    class_map="the authors' order",
  ),
  "tiny-imagenet": Dataset(
    small.load_tiny_imagenet,
    "Tiny-ImageNet, validation part, 64x64",
    10_000,
    200,
    "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    _RESEARCH,
    "tiny-imagenet-200",
    "unpack tiny-imagenet-200.zip",
    class_map="sorted WordNet ids",
  ),
  "imagenet16-120": _imagenet16(False),
  "imagenet16-120-train": _imagenet16(True),
  **IMAGENET_SETS,
}
