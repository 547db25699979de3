"""The official perturbation sequences: CIFAR-P's arrays and ImageNet-P's videos.

A sequence is one example with many frames, so these are no data sources of single images: `take(ids)` gives
(N, frames, H, W, 3). Flip rates compare the predictions along the frames; labels are not needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jaxrobust.core.errors import CorruptFileError, InputError


@dataclass(frozen=True, eq=False)
class ArraySequences:
  """CIFAR-10-P: `folder/tilt.npy` of the shape (N, frames, 32, 32, 3), never read as a whole."""

  frames: np.ndarray

  def __len__(self) -> int:
    return len(self.frames)

  def take(self, ids: np.ndarray) -> np.ndarray:
    """Sequences (N, frames, H, W, 3), float32 in [0, 1]."""
    return np.asarray(self.frames[np.asarray(ids)]).astype(np.float32) / np.float32(255)


@dataclass(frozen=True, eq=False)
class VideoSequences:
  """ImageNet-P: `folder/tilt/n01440764/….mp4`, decoded by FFmpeg when asked for."""

  files: list[Path]

  def __len__(self) -> int:
    return len(self.files)

  def take(self, ids: np.ndarray) -> np.ndarray:
    """Sequences (N, frames, H, W, 3), float32 in [0, 1]."""
    videos = [read_video(self.files[int(i)]) for i in ids]
    if len({video.shape for video in videos}) > 1:
      raise CorruptFileError(f"videos differ in length or size: {sorted({video.shape for video in videos})[:2]}")
    return np.stack(videos).astype(np.float32) / np.float32(255)


def load_sequences(folder: str | Path, perturbation: str) -> ArraySequences | VideoSequences:
  """The sequences of a perturbation in the folder of CIFAR-10-P or ImageNet-P, whichever it is."""
  root = Path(folder).expanduser()
  array, videos = root / f"{perturbation}.npy", root / perturbation
  if array.is_file():
    frames = np.load(array, mmap_mode="r", allow_pickle=False)
    if frames.ndim != 5 or frames.dtype != np.uint8:
      raise CorruptFileError(f"{array} is {frames.dtype} of shape {frames.shape}; expected uint8 (N, frames, H, W, 3)")
    return ArraySequences(frames)
  files = sorted(videos.rglob("*.mp4")) if videos.is_dir() else []
  if not files:
    raise InputError(f"{root} has neither {array.name} nor a folder {perturbation} of .mp4 files")
  return VideoSequences(files)


def read_video(path: Path) -> np.ndarray:
  """All frames of a video, uint8 RGB."""
  try:
    import av
  except ImportError:
    raise InputError("videos need FFmpeg: pip install 'jaxrobust[system]'") from None
  try:
    with av.open(str(path)) as container:
      return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
  except (av.error.FFmpegError, ValueError) as error:
    raise CorruptFileError(f"{path} cannot be decoded: {error}") from None
