"""Data from anywhere: pictures mean what they show or are refused, archives are bounded, contents are fingerprinted."""

import io
import os
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from PIL import Image

from jaxrobust.core.errors import CorruptFileError, InputError, JaxrobustError
from jaxrobust.core.pictures import _eight_bits
from jaxrobust.data.registry import load_data
from jaxrobust.data.stores import FolderStore
from tests.assault import weights

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 40 40\n%%EndComments\nshowpage\n%%EOF\n"


def png(array, **options):
  file = io.BytesIO()
  Image.fromarray(array).save(file, "PNG", **options)
  return file.getvalue()


def raw_png(width, height, body, bits=8, kind=2, *more):
  """A picture of any size, from its parts; `more` are further chunks."""
  chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
  head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0))
  parts = [head, *(chunk(*one) for one in more), chunk(b"IDAT", zlib.compress(body)), chunk(b"IEND", b"")]
  return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def huge_png(width, height):
  """A header of a picture of any size, and no pixels."""
  return raw_png(width, height, bytes(1000))


@pytest.fixture
def put(tmp_path):
  """Writes pictures as a folder of two classes; returns its name as a data set."""

  def to_folder(data, name="x.png"):
    for at, each in enumerate(data if isinstance(data, list) else [data]):
      folder = tmp_path / "set" / "ab"[at % 2]
      folder.mkdir(parents=True, exist_ok=True)
      (folder / name).write_bytes(each)
    return f"folder:{tmp_path / 'set'}"

  return to_folder


def take(name):
  source = load_data(name)
  return source.take(np.arange(len(source)))[0]


@pytest.mark.parametrize("level", [0, 128, 60000, 65535])
def test_16_bits_of_gray_become_the_nearest_8(put, level):
  images = take(put(png(np.full((256, 256), level, np.uint16))))
  assert abs(float(images.max()) - level / 65535) <= 0.5 / 255 and np.ptp(images) == 0


def test_a_16_bit_gradient_keeps_its_levels(put):
  gradient = np.linspace(0, 65535, 256).astype(np.uint16)[None].repeat(256, 0)
  images = take(put(png(gradient)))
  assert images.min() < 0.1 and images.max() > 0.9 and abs(images.mean() - 0.5) < 0.01


@pytest.mark.parametrize(("kind", "channels"), [(2, 3), (4, 2), (6, 4)])
def test_16_bits_of_several_channels_are_not_cut_to_8(put, kind, channels):
  body = 256 * (b"\0" + 256 * channels * b"\x01\xfe")
  with pytest.raises(CorruptFileError, match="several channels of 16 bits, which would be cut to 8"):
    take(put(raw_png(256, 256, body, 16, kind)))


def test_a_large_picture_of_16_bits_takes_a_few_times_its_pixels():
  levels = np.full((4096, 4096), 257, np.uint16)
  tracemalloc.start()
  found = _eight_bits(levels)
  peak = tracemalloc.get_traced_memory()[1]
  tracemalloc.stop()
  assert (found == 1).all() and peak <= 2 * found.nbytes


def test_16_bits_of_gray_may_be_transparent(put):
  body = 256 * (b"\0" + 256 * b"\x01\xfe")
  with pytest.raises(CorruptFileError, match="transparent pixels"):
    take(put(raw_png(256, 256, body, 16, 0, (b"tRNS", b"\x01\xfe"))))


def test_transparent_pictures_are_refused_and_opaque_ones_read(put):
  pixels = np.full((256, 256, 4), 200, np.uint8)
  with pytest.raises(CorruptFileError, match="transparent pixels; put it on a background"):
    take(put(png(pixels)))
  pixels[..., 3] = 255
  assert take(put(png(pixels))).max() == np.float32(200 / 255)


@pytest.mark.parametrize("name", ["x.jpg", "x.png", "x.webp"])
def test_formats_that_start_programs_are_not_opened(put, name):
  with pytest.raises(CorruptFileError, match="not a picture of a known format") as error:
    take(put(EPS, name))
  assert "Ghostscript" not in str(error.value)


@pytest.mark.parametrize("size", [(60000, 60000), (30000, 30000), (60000, 1), (2**31 - 1, 1)])
def test_pictures_of_gigabytes_are_refused_by_their_header(put, size):
  with pytest.raises(CorruptFileError, match="cannot be decoded") as error:
    take(put(huge_png(*size)))
  assert "\n" not in str(error.value)


def test_devices_fifos_dangling_and_leading_links_are_refused(put, tmp_path, monkeypatch):
  name = put(png(np.zeros((256, 256), np.uint8)))
  outside = tmp_path / "outside.png"
  outside.write_bytes(png(np.full((256, 256), 255, np.uint8)))
  place = tmp_path / "set" / "a" / "y.png"
  for target, reason in (("/dev/zero", "leads out"), (outside, "leads out"), ("nowhere.png", "no such file")):
    place.unlink(missing_ok=True)
    place.symlink_to(target)
    with pytest.raises(JaxrobustError, match=reason):
      take(name)
  monkeypatch.setenv("JAXROBUST_FOLLOW_LINKS", "1")
  place.unlink()
  place.symlink_to(outside)
  assert take(name).max() == 1
  for make in (lambda: os.mkfifo(place), lambda: place.symlink_to("/dev/zero")):
    place.unlink()
    make()
    with pytest.raises(CorruptFileError, match="not a regular file"):
      take(name)


def test_a_list_of_classes_may_not_be_a_link_out_of_its_folder(put, tmp_path):
  name = put(png(np.zeros((256, 256, 3), np.uint8)))
  (tmp_path / "elsewhere").write_text("a\nb\n")
  os.symlink(tmp_path / "elsewhere", tmp_path / "set" / "classes.txt")
  with pytest.raises(InputError, match="leads out of its folder"):
    load_data(name)


def test_a_link_back_up_is_no_endless_folder(tmp_path):
  (tmp_path / "a").mkdir()
  (tmp_path / "a" / "x.png").write_bytes(b"")
  (tmp_path / "a" / "up").symlink_to(tmp_path)
  assert "a/x.png" in FolderStore(tmp_path).names and len(FolderStore(tmp_path).names) == 1


def test_a_name_that_is_no_text_is_refused(put, tmp_path):
  name = put(png(np.zeros((256, 256), np.uint8)))
  with open(os.fsencode(tmp_path / "set" / "a") + b"/\xff.png", "wb"):
    pass
  with pytest.raises(InputError, match="no plain text"):
    load_data(name).fingerprint()


def test_the_fingerprint_is_of_the_contents(put, tmp_path, monkeypatch):
  monkeypatch.setenv("JAXROBUST_CACHE", str(tmp_path / "cache"))
  black, white = (png(np.full((64, 64), level, np.uint8), compress_level=0) for level in (0, 255))
  assert len(black) == len(white)
  name = put([black, white])
  before = load_data(name).fingerprint()
  assert load_data(name).fingerprint() == before
  with monkeypatch.context() as homeless:  # As in a container whose user has no entry.
    for variable in ("JAXROBUST_CACHE", "XDG_CACHE_HOME"):
      homeless.delenv(variable, raising=False)
    homeless.setattr("os.path.expanduser", lambda path: path)
    assert load_data(name).fingerprint() == before
  paths = [tmp_path / "set" / each / "x.png" for each in "ab"]
  times = [(path.stat().st_atime_ns, path.stat().st_mtime_ns) for path in paths]
  put([white, black])
  for path, each in zip(paths, times, strict=True):
    os.utime(path, ns=each)
  assert load_data(name).fingerprint() != before
  put([black, white])
  assert load_data(name).fingerprint() == before


def test_unchanged_files_are_not_read_again(put, tmp_path, monkeypatch):
  monkeypatch.setenv("JAXROBUST_CACHE", str(tmp_path / "cache"))
  name = put([png(np.full((64, 64), level, np.uint8)) for level in (0, 255)])
  for each in "ab":  # Long enough ago to be settled.
    path = tmp_path / "set" / each / "x.png"
    os.utime(path, (path.stat().st_mtime - 100,) * 2)
  before = load_data(name).fingerprint()
  read = []
  original = FolderStore.read
  monkeypatch.setattr(FolderStore, "read", lambda self, file: read.append(file) or original(self, file))
  assert load_data(name).fingerprint() == before and not read
  put([png(np.full((64, 64), 7, np.uint8))])
  assert load_data(name).fingerprint() != before and read == ["a/x.png"]


ARRAYS = {name: data for name, data in weights.bombs().items() if name.startswith("npz-")}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ARRAYS)
def test_archives_of_images_are_bounded(tmp_path, name):
  data = ARRAYS[name].replace(b"a.npy", b"x.npy")
  (tmp_path / "x.npz").write_bytes(data)
  with pytest.raises(CorruptFileError, match=r"truncated or not an .npz archive") as error:
    load_data(f"npz:{tmp_path / 'x.npz'}")
  assert "\n" not in str(error.value)
