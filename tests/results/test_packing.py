"""Packed arrays come back unchanged, and nothing malformed gets through."""

import base64
import json
import zlib

import numpy as np
import pytest

from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.results.packing import pack, unpack


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 1000])
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_round_trip(n, dtype):
  array = (np.arange(n) % 3 - 1).astype(dtype)
  value = json.loads(json.dumps(pack(array)))
  back = unpack(value)
  assert back.dtype == array.dtype and back.flags.writeable
  np.testing.assert_array_equal(back, array)
  assert pack(back) == value


def test_special_floats_survive():
  array = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45], np.float32)
  assert unpack(pack(array)).tobytes() == array.tobytes()


def test_flags_are_compact():
  assert len(json.dumps(pack(np.ones(10_000, bool)))) < 1800


@pytest.mark.parametrize("array", [np.zeros(2), np.zeros(2, np.int64), np.array([object()]), np.array(["a"])])
def test_other_types_are_refused(array):
  with pytest.raises(InputError, match="only bool, int32 and float32"):
    pack(array)


def test_other_ranks_are_refused():
  with pytest.raises(InputError, match="rank 1"):
    pack(np.zeros((2, 2), np.float32))


def words(raw: bytes) -> str:
  return base64.b64encode(zlib.compress(raw)).decode()


@pytest.mark.parametrize(
  ("value", "reason"),
  [
    (None, "exactly the entries"),
    ([1], "exactly the entries"),
    ({"kind": "bits", "n": 1}, "exactly the entries"),
    ({"kind": "bits", "n": 1, "data": "gA==", "more": 1}, "exactly the entries"),
    ({"kind": "bits", "n": -1, "data": ""}, "length -1"),
    ({"kind": "bits", "n": True, "data": "gA=="}, "length True"),
    ({"kind": "bits", "n": "1", "data": "gA=="}, "length '1'"),
    ({"kind": "bits", "n": 1, "data": 5}, "not text"),
    ({"kind": "bits", "n": 1, "data": "g*A="}, "not base64"),
    ({"kind": "bits", "n": 1, "data": "gä=="}, "not base64"),
    ({"kind": "bits", "n": 9, "data": "gA=="}, "do not fit"),
    ({"kind": "bits", "n": 10**30, "data": "gA=="}, "do not fit"),
    ({"kind": "bits", "n": 1, "data": "wA=="}, "belong to no example"),
    ({"kind": "int64", "n": 1, "data": "gA=="}, "unknown kind"),
    ({"kind": ["bits"], "n": 1, "data": "gA=="}, "unknown kind"),
    ({"kind": "int32", "n": 1, "data": "gAAA"}, "cannot be decompressed"),
    ({"kind": "int32", "n": 2, "data": words(b"\0" * 4)}, "do not match"),
    ({"kind": "int32", "n": 1, "data": words(b"\0" * 5)}, "do not match"),
    ({"kind": "int32", "n": 0, "data": words(b"\0" * 4)}, "do not match"),
    ({"kind": "int32", "n": 10**30, "data": words(b"\0" * 4)}, "cannot come from"),
    ({"kind": "float32", "n": 1, "data": words(b"\0" * 4)[:-8] + "AAAA"}, "decompressed|do not match|base64"),
  ],
)
def test_malformed_values_are_refused(value, reason):
  with pytest.raises(CorruptFileError, match=reason):
    unpack(value)


def test_truncated_and_trailing_streams_are_refused():
  raw = zlib.compress(np.arange(100, dtype="<i4").tobytes())
  for broken in [*(raw[:size] for size in range(1, len(raw))), raw + b"x"]:
    with pytest.raises(CorruptFileError):
      unpack({"kind": "int32", "n": 100, "data": base64.b64encode(broken).decode()})


def test_a_decompression_bomb_is_not_expanded(monkeypatch):
  asked = []

  class Stream:
    eof, unused_data = False, b""

    def decompress(self, raw, size):
      asked.append(size)
      return b"\0" * size

  monkeypatch.setattr(zlib, "decompressobj", Stream)
  with pytest.raises(CorruptFileError, match="do not match"):
    unpack({"kind": "int32", "n": 10, "data": base64.b64encode(b"x" * 1000).decode()})
  assert asked == [41]
