"""The official perturbation sequences as data sets: arrays as they are, videos where FFmpeg is installed."""

import importlib.util

import numpy as np
import pytest

from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.data import load_data, stored_sequences
from jaxrobust.data.source import SequenceSource
from tests.data.miniatures import A, B

FRAMES = np.random.RandomState(0).randint(0, 256, (3, 5, 32, 32, 3)).astype(np.uint8)


@pytest.fixture
def cifar(root):
  """CIFAR-10-P's tilt beside a test set of three images."""
  for name in ("cifar10", "cifar10-p"):
    (root / name).mkdir()
  np.savez(root / "cifar10" / "test.npz", images=FRAMES[:, 0], labels=np.array([7, 0, 9]))
  np.save(root / "cifar10-p" / "tilt.npy", FRAMES)
  return root / "cifar10-p"


def test_arrays(cifar):
  source = load_data("cifar10-p:tilt")
  assert isinstance(source, SequenceSource) and (len(source), source.num_frames, source.perturbation) == (3, 5, "tilt")
  frames, labels = source.frames(np.array([2, 0]))
  np.testing.assert_allclose(frames * 255, FRAMES[[2, 0]], atol=1e-4)
  np.testing.assert_array_equal(labels, [9, 7])
  np.testing.assert_array_equal(source.take(np.array([2, 0]))[0], frames[:, 0])
  first = source.subset(2)
  assert len(first) == 2 and first.fingerprint() != source.fingerprint()
  pinned = load_data("cifar10-p:tilt@2")
  assert isinstance(pinned, SequenceSource) and len(pinned.subset(1).frames(np.array([0]))[0]) == 1
  np.testing.assert_array_equal(pinned.frames(np.array([1]))[0], source.frames(pinned.ids[1:])[0])
  for asked in (source.take, source.frames, pinned.frames):
    with pytest.raises(InputError, match="outside 0"):
      asked(np.array([3]))


def test_what_is_no_sequence_is_refused(cifar):
  np.save(cifar / "snow.npy", FRAMES[0])
  for name, error, text in [
    ("cifar10-p:snow", CorruptFileError, "expected uint8"),
    ("cifar10-p:fog", InputError, r"there is no file .*fog\.npy"),
    ("cifar10-p", InputError, "needs a perturbation, such as cifar10-p:tilt"),
    ("cifar10-p:../tilt", InputError, "needs a perturbation"),
  ]:
    with pytest.raises(error, match=text):
      load_data(name)


@pytest.fixture
def videos(root):
  """Names of two videos as ImageNet-P has them."""
  for wnid in (B, A):
    (root / "imagenet-p" / "tilt" / wnid).mkdir(parents=True)
    (root / "imagenet-p" / "tilt" / wnid / "a.mp4").write_bytes(b"no video")
  return root / "imagenet-p" / "tilt"


def test_videos_by_class(videos, monkeypatch):
  read = []

  def decode(path, most=None):
    read.append((path.parent.name, most))
    return np.full((1 if most else 4, 8, 8, 3), 51 if path.parent.name == A else 255, np.uint8)

  monkeypatch.setattr(stored_sequences, "read_video", decode)
  source = load_data("imagenet-p:tilt")
  assert (len(source), source.num_frames, source.num_classes) == (2, 4, 1000)
  read.clear()
  images, labels = source.take(np.array([1]))
  assert images.shape == (1, 8, 8, 3) and images.max() == 1 and read == [(B, 1)], "only the first frame is decoded"
  frames, labels = source.frames(np.array([1, 0]))
  assert frames.shape == (2, 4, 8, 8, 3) and frames[1].max() == np.float32(0.2)
  np.testing.assert_array_equal(labels, source.labels[[1, 0]])
  with pytest.raises(InputError, match=r"has no videos; expected snow/n01440764"):
    load_data("imagenet-p:snow")


def test_videos_are_decoded_by_ffmpeg(videos):
  source = load_data("imagenet-p:tilt").subset(1)
  if importlib.util.find_spec("av") is None:
    with pytest.raises(InputError, match="videos need FFmpeg"):
      source.take(np.array([0]))
    return
  with pytest.raises(CorruptFileError, match="cannot be decoded"):
    source.take(np.array([0]))
  import av

  with av.open(str(videos / A / "a.mp4"), "w") as container:
    stream = container.add_stream("mpeg4", rate=1)
    stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
    for level in (20, 220):
      frame = av.VideoFrame.from_ndarray(np.full((64, 64, 3), level, np.uint8), format="rgb24")
      container.mux(stream.encode(frame))
    container.mux(stream.encode())
  video, _ = source.frames(np.array([0]))
  assert video.shape == (1, 2, 64, 64, 3) and np.abs(video[0].mean((1, 2, 3)) * 255 - [20, 220]).max() < 6
