"""Fashion-MNIST's idx files and Tiny-ImageNet's annotated folder."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.core.reading import gunzip, read_file, read_text, reading
from jaxrobust.data.encoded import EncodedSource
from jaxrobust.data.source import ArraySource
from jaxrobust.data.stores import FolderStore

FASHION = ("T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")


def read_idx(path: Path) -> np.ndarray:
  """Returns an array of bytes in the idx format, gzipped or not; `path` is without the `.gz`."""
  zipped = path.with_name(path.name + ".gz")
  if not path.is_file() and not zipped.is_file():
    raise InputError(f"there is no {path} and no {zipped.name}")
  with reading(f"{path}: not an idx file"):
    raw = read_file(path) if path.is_file() else gunzip(read_file(zipped))
    zero, kind, rank = struct.unpack(">HBB", raw[:4])
    shape = struct.unpack(f">{rank}I", raw[4 : 4 + 4 * rank])
    if zero or kind != 8:
      raise ValueError("not an array of bytes")
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(shape)


def load_fashion_mnist(folder: Path, train: bool = False) -> ArraySource:
  """Reads 28x28 gray images of clothes."""
  part = "train" if train else "t10k"
  images = read_idx(folder / f"{part}-images-idx3-ubyte")[..., None]
  labels = read_idx(folder / f"{part}-labels-idx1-ubyte").astype(np.int32)
  return ArraySource("fashion-mnist" + ("-train" if train else ""), images, labels, 10, FASHION)


def load_tiny_imagenet(folder: Path) -> EncodedSource:
  """Reads the validation set, `val/images/*.JPEG` and `val/val_annotations.txt`; classes by WordNet id."""
  listing, table = folder / "val" / "val_annotations.txt", folder / "wnids.txt"
  for path in (listing, table):
    if not path.is_file():
      raise InputError(f"there is no {path}")
  order = {wnid: i for i, wnid in enumerate(sorted(read_text(table).split()))}
  with reading(f"{listing}: not a list of pictures and WordNet ids"):
    rows = [line.split("\t")[:2] for line in read_text(listing).splitlines() if line]
    files = [name for name, _ in rows]
    labels = np.array([order[wnid] for _, wnid in rows], np.int32)
  return EncodedSource(
    "tiny-imagenet", FolderStore(folder / "val" / "images", files), files, labels, len(order), "none"
  )
