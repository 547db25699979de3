"""Encoded pictures are decoded by several threads, to the very pixels of one."""

import io
import threading

import numpy as np
import pytest
from PIL import Image

from jaxrobust.core import threads
from jaxrobust.core.errors import CorruptFileError
from jaxrobust.data.encoded import EncodedSource
from jaxrobust.data.subsets import pinned

RNG = np.random.default_rng(0)
FORMATS = ("JPEG", "PNG", "WEBP", "BMP")


class Kept:
  """A store in memory that may do something before it reads."""

  def __init__(self, files, before=lambda name: None):
    self.files, self.names, self.before = files, list(files), before

  def read(self, name):
    self.before(name)
    return self.files[name]

  def hashes(self, names):
    return {name: str(hash(self.files[name])) for name in names}


def encoded(number):
  width, height = RNG.integers(230, 400, 2)
  file = io.BytesIO()
  Image.fromarray(RNG.integers(0, 256, (height, width, 3), np.uint8)).save(file, FORMATS[number % len(FORMATS)])
  return file.getvalue()


@pytest.fixture(scope="module")
def files():
  return {f"{number:02}": encoded(number) for number in range(12)}


@pytest.fixture
def use_threads(monkeypatch):
  def use(count):
    monkeypatch.setattr(threads, "cores", lambda: count)
    threads._pool.cache_clear()

  yield use
  threads._pool.cache_clear()


def source_of(files, before=lambda name: None):
  return EncodedSource("kept", Kept(files, before), list(files), np.arange(len(files)) % 3, 3)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_any_number_of_threads_gives_the_same_pixels(files, use_threads, count):
  use_threads(count)
  source, ids = source_of(files), np.array([7, 3, 3, 11, 0, 5])
  one_by_one = np.stack([source.decode(int(i)) for i in ids])
  levels, labels = source.raw(ids)
  np.testing.assert_array_equal(levels, one_by_one, strict=True)
  np.testing.assert_array_equal(labels, ids % 3)
  images, labels = source.take(ids)
  np.testing.assert_array_equal(images, one_by_one.astype(np.float32) / np.float32(255), strict=True)
  np.testing.assert_array_equal(labels, ids % 3)
  part = pinned(source, 5)
  np.testing.assert_array_equal(part.raw(np.arange(5))[0], source.raw(part.ids)[0], strict=True)


def test_pictures_are_decoded_at_the_same_time(files, use_threads):
  use_threads(3)
  together = threading.Barrier(3, timeout=20)
  assert len(source_of(files, lambda name: together.wait()).take(np.arange(12))[0]) == 12


def test_the_first_bad_picture_is_named_and_the_rest_left_undone(files, use_threads):
  use_threads(2)
  begun = []
  many = {f"{number:03}": b"<html>" if number in (1, 3) else files["01"] for number in range(200)}
  with pytest.raises(CorruptFileError, match=r"example 1 \(001\) cannot be decoded"):
    source_of(many, begun.append).take(np.arange(200))
  assert len(begun) < 100
