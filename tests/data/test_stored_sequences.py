"""Stored perturbation sequences: arrays as they are, videos where FFmpeg is installed."""

import importlib.util

import numpy as np
import pytest

from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.data.stored_sequences import load_sequences


def test_arrays(tmp_path):
  frames = np.random.RandomState(0).randint(0, 256, (3, 5, 32, 32, 3)).astype(np.uint8)
  np.save(tmp_path / "tilt.npy", frames)
  source = load_sequences(tmp_path, "tilt")
  assert len(source) == 3
  np.testing.assert_allclose(source.take(np.array([2, 0])) * 255, frames[[2, 0]], atol=1e-4)
  np.save(tmp_path / "snow.npy", frames[0])
  with pytest.raises(CorruptFileError, match="expected uint8"):
    load_sequences(tmp_path, "snow")
  with pytest.raises(InputError, match=r"neither fog\.npy nor a folder fog"):
    load_sequences(tmp_path, "fog")


def test_videos(tmp_path):
  folder = tmp_path / "tilt" / "n01440764"
  folder.mkdir(parents=True)
  path = folder / "a.mp4"
  path.write_bytes(b"no video")
  source = load_sequences(tmp_path, "tilt")
  if importlib.util.find_spec("av") is None:
    with pytest.raises(InputError, match="videos need FFmpeg"):
      source.take(np.array([0]))
    return
  with pytest.raises(CorruptFileError, match="cannot be decoded"):
    source.take(np.array([0]))
  import av

  with av.open(str(path), "w") as container:
    stream = container.add_stream("mpeg4", rate=1)
    stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
    for level in (20, 220):
      frame = av.VideoFrame.from_ndarray(np.full((64, 64, 3), level, np.uint8), format="rgb24")
      container.mux(stream.encode(frame))
    container.mux(stream.encode())
  video = source.take(np.array([0]))
  assert video.shape == (1, 2, 64, 64, 3) and np.abs(video[0].mean((1, 2, 3)) * 255 - [20, 220]).max() < 6
