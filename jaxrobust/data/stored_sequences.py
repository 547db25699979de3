"""The official perturbation sequences as data sets: `cifar10-p:tilt` (arrays) and `imagenet-p:tilt` (videos).

Hendrycks and Dietterich 2019, arXiv:1903.12261. An example is a sequence: `frames` gives all of it, `take` the image it
starts from. The harder forms of the noises are variants too, by the names of their files (`gaussian_noise_2`).
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.core.reading import map_npy
from jaxrobust.data.cifar import load_cifar
from jaxrobust.data.imagenet import class_index
from jaxrobust.data.source import ArraySource, Dataset, Ids, SourceView, as_floats, check_count, check_ids


@dataclass(frozen=True, eq=False)
class ArraySequences(SourceView):
  """Holds all frames of all sequences one after the other in a source of arrays, a memory map."""

  source: ArraySource
  perturbation: str
  num_frames: int

  def __len__(self) -> int:
    return len(self.source) // self.num_frames

  def take(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first frames of the sequences with these ids, and labels."""
    return self.source.take(check_ids(self, ids) * self.num_frames)

  def frames(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sequences (N, frames, H, W, 3) with these ids, and labels."""
    places = check_ids(self, ids)[:, None] * self.num_frames + np.arange(self.num_frames)
    images, labels = self.source.take(places.ravel())
    return images.reshape(*places.shape, *images.shape[1:]), labels[:: self.num_frames]

  def fingerprint(self) -> str:
    """Identifies all frames, and how many make a sequence."""
    return hashlib.sha256(f"{self.source.fingerprint()} {self.num_frames}".encode()).hexdigest()[:16]

  def subset(self, n: int) -> ArraySequences:
    """Returns the first n sequences."""
    return replace(self, source=self.source.subset(check_count(self, n) * self.num_frames))


@dataclass(frozen=True, eq=False)
class VideoSequences:
  """Decodes videos below a folder by FFmpeg when they are asked for."""

  name: str
  root: Path
  files: Sequence[str]
  labels: np.ndarray
  num_classes: int
  perturbation: str

  def __len__(self) -> int:
    return len(self.files)

  @functools.cached_property
  def num_frames(self) -> int:
    return len(read_video(self.root / self.files[0]))

  def take(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first frames of the sequences with these ids, and labels."""
    images, labels = self._read(ids, 1)
    return images[:, 0], labels

  def frames(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sequences (N, frames, H, W, 3) with these ids, and labels."""
    images, labels = self._read(ids, None)
    if images.shape[1] != self.num_frames:
      raise CorruptFileError(f"videos of {self.name} have {images.shape[1]} and {self.num_frames} frames")
    return images, labels

  def _read(self, ids: Ids, most: int | None) -> tuple[np.ndarray, np.ndarray]:
    ids = check_ids(self, ids)
    videos = [read_video(self.root / self.files[i], most) for i in ids]
    if len({video.shape for video in videos}) > 1:
      raise CorruptFileError(f"videos of {self.name} differ in length or size: {sorted({v.shape for v in videos})[:2]}")
    return as_floats(np.stack(videos)), self.labels[ids]

  def fingerprint(self) -> str:
    """Changes with names, sizes, order and labels; videos are not decoded."""
    digest = hashlib.sha256(self.perturbation.encode())
    for file, label in zip(self.files, self.labels, strict=True):
      digest.update(f"{file} {(self.root / file).stat().st_size} {label}\n".encode())
    return digest.hexdigest()[:16]

  def subset(self, n: int) -> VideoSequences:
    """Returns the first n sequences."""
    n = check_count(self, n)
    return replace(self, files=self.files[:n], labels=self.labels[:n])


def cifar_sequences(folder: Path, variant: str) -> ArraySequences:
  """Reads `folder/tilt.npy` of the shape (N, frames, 32, 32, 3); they have the test set's order, and labels."""
  _check_variant("cifar10-p", variant)
  array, labels = folder / f"{variant}.npy", load_cifar(folder.parent / "cifar10", 10).labels
  if not array.is_file():
    raise InputError(f"there is no file {array}")
  frames = map_npy(array)
  if frames.ndim != 5 or frames.dtype != np.uint8 or len(frames) > len(labels):
    raise CorruptFileError(f"{array} is {frames.dtype} of shape {frames.shape}; expected uint8 (N, frames, H, W, 3)")
  number, count = frames.shape[:2]
  images, labels = frames.reshape(number * count, *frames.shape[2:]), np.repeat(labels[:number], count)
  return ArraySequences(ArraySource(f"cifar10-p:{variant}", images, labels, 10), variant, count)


def imagenet_sequences(folder: Path, variant: str) -> VideoSequences:
  """Finds `folder/tilt/n01440764/….mp4`; classes by WordNet id."""
  _check_variant("imagenet-p", variant)
  root = folder / variant
  files = sorted(path.relative_to(root).as_posix() for path in root.glob("*/*.mp4"))
  if not files:
    raise InputError(f"{root} has no videos; expected {variant}/n01440764/….mp4 there")
  labels = np.array([class_index(file.split("/")[0]) for file in files], np.int32)
  return VideoSequences(f"imagenet-p:{variant}", root, files, labels, 1000, variant)


def _check_variant(name: str, variant: str) -> None:
  if not variant.isidentifier():
    raise InputError(f"{name} needs a perturbation, such as {name}:tilt")


def read_video(path: Path, most: int | None = None) -> np.ndarray:
  """Returns the first frames of a video, all of them without `most`: uint8 RGB."""
  try:
    import av
  except ImportError:
    raise InputError("videos need FFmpeg: pip install 'jaxrobust[system]'") from None
  frames: list[np.ndarray] = []
  try:
    with av.open(str(path)) as container:
      for frame in container.decode(video=0):
        frames.append(frame.to_ndarray(format="rgb24"))
        if len(frames) == most:
          break
    return np.stack(frames)
  except (av.error.FFmpegError, ValueError) as error:
    raise CorruptFileError(f"{path} cannot be decoded: {error}") from None


_SOURCE = "https://github.com/hendrycks/robustness (Zenodo 2535967, 3565846)"

STORED_SEQUENCES = {
  "cifar10-p": Dataset(
    cifar_sequences,
    "CIFAR-10-P, the official sequences; cifar10-p:tilt is one perturbation",
    10_000,
    10,
    _SOURCE,
    "CC BY 4.0",
    "cifar10-p",
    "unpack CIFAR-10-P.tar there (one .npy per perturbation), beside cifar10, whose labels it has",
    variants=True,
  ),
  "imagenet-p": Dataset(
    imagenet_sequences,
    "ImageNet-P, the official videos; imagenet-p:tilt is one perturbation",
    50_000,
    1000,
    _SOURCE,
    "CC BY 4.0",
    "imagenet-p",
    "unpack blur.tar, digital.tar, noise.tar, weather.tar so that imagenet-p/tilt/n01440764 exists",
    class_map="folders are WordNet ids",
    variants=True,
  ),
}
