"""Sources hand out checked float32 batches and know their own fingerprint."""

import tracemalloc

import numpy as np
import pytest

from jaxrobust.core.errors import InputError
from jaxrobust.core.validation import check_images
from jaxrobust.data.source import ArraySource, DataSource

pytestmark = pytest.mark.smoke

IMAGES = np.arange(6 * 4 * 4 * 3).reshape(6, 4, 4, 3).astype(np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, 2])


def make(images=IMAGES, labels=LABELS, classes=3, name="toy"):
  return ArraySource(name, images, labels, classes)


def test_take_converts_and_keeps_order():
  source: DataSource = make()
  images, labels = source.take(np.array([5, 0, 5]))
  assert images.dtype == np.float32 and labels.dtype == np.int32 and len(source) == 6
  np.testing.assert_array_equal(images, IMAGES[[5, 0, 5]].astype(np.float32) / np.float32(255))
  np.testing.assert_array_equal(labels, [2, 0, 2])
  empty, none = source.take(np.array([]))
  assert empty.shape == (0, 4, 4, 3) and len(none) == 0


def test_take_gives_copies():
  floats = np.zeros((6, 4, 4, 3), np.float32)
  make(floats).take(np.arange(2))[0][:] = 1
  assert floats.max() == 0


def test_take_refuses_bad_ids_and_bad_values():
  with pytest.raises(InputError, match=r"ids 2 … 6 are outside 0 … 5 of toy"):
    make().take(np.array([2, 6]))
  with pytest.raises(InputError, match="outside"):
    make().take(np.array([-1]))
  with pytest.raises(InputError, match="integers of rank 1"):
    make().take(np.array([0.5]))
  floats = np.zeros((6, 4, 4, 3), np.float32)
  floats[3] = 2
  source = make(floats)
  source.take(np.array([2]))
  with pytest.raises(InputError, match="range from 0 to 2"):
    source.take(np.array([2, 3]))


def test_memory_map(tmp_path):
  path = tmp_path / "images.bin"
  IMAGES.tofile(path)
  mapped = make(np.memmap(path, np.uint8, "r", shape=IMAGES.shape))
  assert mapped.fingerprint() == make().fingerprint()
  images, _ = mapped.take(np.arange(6))
  assert type(images) is np.ndarray
  np.testing.assert_array_equal(images, make().take(np.arange(6))[0])


def test_fingerprint_depends_on_everything_but_the_name(monkeypatch):
  print_of = make().fingerprint()
  assert len(print_of) == 16 and int(print_of, 16) >= 0
  assert make(name="other").fingerprint() == print_of
  assert make(labels=LABELS.astype(np.uint8)).fingerprint() == print_of
  assert make(np.asfortranarray(IMAGES)).fingerprint() == print_of
  changed = IMAGES.copy()
  changed[5, 3, 3, 2] ^= 1
  others = [make(changed), make(labels=LABELS[::-1]), make(classes=4), make().subset(5)]
  others += [make(IMAGES.reshape(6, 2, 8, 3)), make(np.zeros(IMAGES.shape, np.float32))]
  assert len({print_of, *(other.fingerprint() for other in others)}) == 7
  monkeypatch.setattr("jaxrobust.data.source._CHUNK_BYTES", 100)
  assert make().fingerprint() == print_of


def test_subset():
  small = make().subset(2)
  assert len(small) == 2 and small.name == "toy" and np.shares_memory(small.images, IMAGES)
  with pytest.raises(InputError, match="toy has 6 examples; cannot take the first 7"):
    make().subset(7)
  with pytest.raises(InputError, match="first 0"):
    make().subset(0)


def test_bad_sources_are_refused():
  with pytest.raises(InputError, match="images of toy are float64; expected uint8 or float32"):
    make(IMAGES.astype(np.float64))
  with pytest.raises(InputError, match="range from 0 to 2; expected 0 to 1"):
    make(classes=2)
  with pytest.raises(InputError, match="3 classes but 2 class names"):
    ArraySource("toy", IMAGES, LABELS, 3, ("a", "b"))


GOOD = np.full((6, 4, 4, 3), 0.5, np.float32)


def spoiled(value):
  images = GOOD.copy()
  images[2, 1, 1, 0] = value
  return images


@pytest.mark.parametrize(
  ("images", "labels", "reason"),
  [
    (IMAGES, LABELS, "images are uint8; divide by 255"),
    (IMAGES.astype(np.int64), LABELS, "images are int64; divide by 255"),
    (GOOD > 0, LABELS, "images are bool; pass float32"),
    (spoiled(-0.25), LABELS, r"range from -0\.25 to 0\.5; expected \[0, 1\] \(normalization"),
    (spoiled(1.0000001), LABELS, r"to 1\.00000012"),
    (spoiled(200), LABELS, r"range from 0\.5 to 200; .*divide by 255"),
    (spoiled(np.nan), LABELS, "NaN or infinity .first in example 2"),
    (spoiled(np.inf), LABELS, "NaN or infinity .first in example 2"),
    (spoiled(-np.inf), LABELS, "NaN or infinity .first in example 2"),
    (GOOD[0], LABELS[:1], r"shape \(4, 4, 3\); expected \(N, H, W, C\); add a leading axis"),
    (GOOD.reshape(6, -1), LABELS, r"expected \(N, H, W, C\)"),
    (GOOD[:, :0], LABELS, "at least one pixel"),
    (np.zeros((6, 3, 8, 8), np.float32), LABELS, r"looks like \(N, C, H, W\); .*transpose"),
    (GOOD, LABELS.astype(np.float32), "labels are float32; expected integers"),
    (GOOD, np.eye(6), "one-hot"),
    (GOOD, LABELS[:5], "6 images but 5 labels"),
    (GOOD, LABELS + 1, "labels range from 1 to 3; expected 0 to 2"),
    (GOOD, LABELS - 1, "labels range from -1 to 1; expected 0 to 2"),
  ],
)
def test_bad_input_is_refused_in_one_line(images, labels, reason):
  with pytest.raises(InputError, match=reason) as error:
    check_images(images, labels, 3)
  assert "\n" not in str(error.value)


def test_good_input_passes():
  check_images(GOOD, LABELS, 3)
  check_images(GOOD.astype(np.float64), LABELS.astype(np.uint8), 3)
  check_images(GOOD[:0], LABELS[:0], 3)
  check_images(GOOD[:0], np.array([]), 3)


def test_checking_does_not_copy():
  images = np.zeros((256, 32, 32, 3), np.float32)
  tracemalloc.start()
  check_images(images, np.zeros(256, int), 10)
  peak = tracemalloc.get_traced_memory()[1]
  tracemalloc.stop()
  assert peak < images.nbytes / 10
