"""Weight files by content: safetensors, npz, PyTorch, and what only looks like one."""

import hashlib
import json

import ml_dtypes
import numpy as np
import pytest

from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.models.weights.weight_files import read_weights
from tests.models.weights.torch_files import tensor, zip_file

pytestmark = pytest.mark.smoke


def safetensors(**arrays):
  names = {"float32": "F32", "bfloat16": "BF16", "int64": "I64"}
  header, body = {"__metadata__": {"format": "pt"}}, b""
  for name, array in arrays.items():
    span = [len(body), len(body) + array.nbytes]
    header[name] = {"dtype": names[str(array.dtype)], "shape": list(array.shape), "data_offsets": span}
    body += array.tobytes()
  text = json.dumps(header).encode()
  return len(text).to_bytes(8, "little") + text + body


ARRAYS = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array([7], np.int64)}


@pytest.fixture
def write(tmp_path):
  def to_file(data, name="weights.pth"):
    (tmp_path / name).write_bytes(data)
    return tmp_path / name

  return to_file


def test_safetensors_and_npz_come_back_whatever_their_name(write, tmp_path):
  np.savez(tmp_path / "weights.npz", **ARRAYS)
  files = [tmp_path / "weights.npz", write(safetensors(**ARRAYS), "model.bin")]
  for file in files:
    found = read_weights(file)
    assert set(found) == set(ARRAYS)
    for name, array in ARRAYS.items():
      np.testing.assert_array_equal(found[name], array)


def test_bfloat16_is_read(write):
  array = np.array([[1.5, -2.0]], ml_dtypes.bfloat16)
  np.testing.assert_array_equal(read_weights(write(safetensors(x=array)))["x"], array)


def test_pytorch_files_are_recognized(write):
  storages = {}
  data = zip_file({"x": tensor(np.ones(3), storages)}, storages)
  assert read_weights(write(data))["x"].sum() == 3


@pytest.mark.parametrize(
  ("data", "reason"),
  [
    (b"<!DOCTYPE html><html><body>Sign in</body></html>", r"a web page \(HTML\) saved as weights"),
    (b"\n  <html>quota exceeded", r"a web page \(HTML\) saved as weights"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "a Git LFS pointer"),
    (b"", "the file is empty"),
    (b"hello", "neither a zip archive nor the older PyTorch format"),
    (b"PK\x03\x04 and no more", "cut off or damaged"),
    (safetensors(**ARRAYS)[:-3], "not a readable safetensors file"),
    ((9).to_bytes(8, "little") + b"{broken {" + bytes(9), "not a readable safetensors file"),
  ],
)
def test_what_is_no_weight_file_is_named_in_one_line(write, data, reason):
  path = write(data)
  with pytest.raises(CorruptFileError, match=reason) as error:
    read_weights(path)
  assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


def test_pickled_objects_in_an_npz_are_refused(tmp_path):
  np.savez(tmp_path / "x.npz", a=np.array([{"x": 1}], dtype=object))
  with pytest.raises(CorruptFileError, match="not a readable npz file"):
    read_weights(tmp_path / "x.npz")


def test_the_hash_is_checked_where_given(write):
  data = safetensors(**ARRAYS)
  path, digest = write(data), hashlib.sha256(data).hexdigest()
  read_weights(path, digest)
  read_weights(path, digest[:8].upper())
  with pytest.raises(CorruptFileError, match=f"has sha256 {digest}, expected {'0' * 64}"):
    read_weights(path, "0" * 64)
  for bad in ("abc", "not hexadecimal"):
    with pytest.raises(InputError, match="is no sha256"):
      read_weights(path, bad)


def test_a_missing_file_is_bad_input(tmp_path):
  with pytest.raises(InputError, match="the file does not exist"):
    read_weights(tmp_path / "nowhere.pth")
