"""Weight files that nobody should trust: bombs, loops, code, lies about sizes, and damaged real ones."""

from __future__ import annotations

import bz2
import functools
import io
import json
import pickle
import struct
import zipfile
import zlib

import numpy as np

from tests.models.weights.torch_files import Reduced, dump, legacy_file, tensor, zip_file

GIB = 2**30


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
  buffer = io.BytesIO()
  with zipfile.ZipFile(buffer, "w", method) as archive:
    for name, data in members.items():
      archive.writestr(name, data)
  return buffer.getvalue()


def torch_zip(pickled: bytes, **storages: bytes) -> bytes:
  """A checkpoint around any bytes as its pickle."""
  return zipped({"x/data.pkl": pickled, **{f"x/data/{key}": data for key, data in storages.items()}})


def laughs(kind: type, depth: int = 9, width: int = 12) -> object:
  """A container that is `width ** depth` times in itself."""
  value: object = [1]
  for _ in range(depth):
    value = [value] * width if kind is list else {str(i): value for i in range(width)}
  return value


@functools.cache
def packed_zeros(mebibytes: int) -> tuple[bytes, int]:
  """Zeros as deflate packs them, and their checksum: after a full flush every part is packed alike."""
  packer, block, crc = zlib.compressobj(9, zlib.DEFLATED, -15), bytes(2**20), 0
  part = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
  for _ in range(mebibytes):
    crc = zlib.crc32(block, crc)
  return part * mebibytes + packer.flush(), crc


def zeros_member(name: str, size: int, claimed: int | None = None) -> bytes:
  """A zip file whose one member is `size` zeros, a thousandth of it in the file; made without holding them."""
  packed, crc = packed_zeros(size // 2**20)
  claimed = size if claimed is None else claimed
  raw = name.encode()
  common = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, crc, len(packed), claimed, len(raw), 0)
  local = b"PK\x03\x04" + common + raw + packed
  central = b"PK\x01\x02" + struct.pack("<H", 20) + common + struct.pack("<HHHII", 0, 0, 0, 0, 0) + raw
  return local + central + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)


def bzip2_member(name: str, size: int, claimed: int) -> bytes:
  """A zip file whose one member is `size` zeros, packed as Python unpacks without a bound."""
  block = bz2.compress(bytes(2**26))
  file = io.BytesIO()
  with zipfile.ZipFile(file, "w") as archive:
    archive.writestr(name, block * (size // 2**26))
  data = file.getvalue()
  for head, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
    start = data.index(head) if at == 8 else data.rindex(head)
    data = data[: start + at] + struct.pack("<H", 12) + data[start + at + 2 :]
    data = data[: start + at + 14] + struct.pack("<I", claimed) + data[start + at + 18 :]
  return data


def encoded_text(length: int, times: int) -> bytes:
  """A pickle in which one text is encoded again and again."""
  text = b"X" + struct.pack("<I", length) + b"a" * length
  call = b"h\x00h\x01X\x06\x00\x00\x00latin1\x86R"
  return b"\x80\x02c_codecs\nencode\nq\x00" + text + b"q\x01(" + times * call + b"l."


def npy(shape: object, data: bytes = b"", descr: str = "'<f4'", extra: str = "") -> bytes:
  """An npy file that claims a shape."""
  header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, {extra}}}".encode("latin1")
  return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def npz(**members: bytes) -> bytes:
  return zipped({f"{name}.npy": data for name, data in members.items()})


def patched(data: bytes, old: bytes, new: bytes) -> bytes:
  assert old in data and len(old) == len(new)
  return data.replace(old, new)


def flagged(data: bytes, flag: int = 0, method: int = 0) -> bytes:
  """A zip file whose members say that they are encrypted, or packed in some unknown way."""
  out = bytearray(data)
  for magic, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
    start = out.find(magic)
    while start >= 0:
      struct.pack_into("<HH", out, start + at, flag, method)
      start = out.find(magic, start + 4)
  return bytes(out)


def safetensors(header: object, body: bytes = b"") -> bytes:
  text = header if isinstance(header, bytes) else json.dumps(header).encode()
  return len(text).to_bytes(8, "little") + text + body


def view(size: tuple[int, ...], stride: tuple[int, ...], numbers: int = 4) -> bytes:
  storages: dict[str, bytes] = {}
  return zip_file({"w": tensor(np.ones(numbers), storages, size, stride)}, storages)


def executing(target: str) -> dict[str, bytes]:
  """Pickles that would run a command that makes the file `target`."""
  calls = {
    "system": b"cposix\nsystem\n(X%c\x00\x00\x00touch %stR." % (len(f"touch {target}"), target.encode()),
    "eval": b"cbuiltins\neval\n(X\x01\x00\x00\x001tR.",
    "getattr": b"cbuiltins\ngetattr\n(cos\nsystem\nX\x04\x00\x00\x00nametR.",
  }
  inst = f"(Vtouch {target}\niposix\nsystem\n.".encode()
  return {f"code-{name}": torch_zip(data) for name, data in {**calls, "inst": inst}.items()}


def tuples_as_key(depth: int) -> bytes:
  """A dictionary whose key is a tuple nested so deeply that hashing it takes for ever, or the stack."""
  doubled = b"\x80\x02K\x01" + b"2\x86" * depth
  return torch_zip(b"\x80\x02}" + doubled[2:] + b"K\x01s.")


def bombs() -> dict[str, bytes]:
  """Files of at most a few megabytes that stand for gigabytes, or for hours."""
  f32 = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
  deep = b"[" * 200_000
  many = tensor_list(3000)
  return {
    "laughs-list": torch_zip(dump({"state_dict": laughs(list)})),
    "laughs-dict": torch_zip(dump({"state_dict": laughs(dict)})),
    "stride-0": view((2**29,), (0,)),
    "stride-0-large": view((10**10,), (0,)),
    "memo": torch_zip(b"\x80\x02Nr\x00\x00\x00\x10."),
    "key-tuple-60": tuples_as_key(60),
    "key-tuple-deep": torch_zip(b"\x80\x02}K\x01" + b"\x85" * 300_000 + b"K\x01s."),
    "nested-lists": torch_zip(b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b"."),
    "itself": torch_zip(b"\x80\x02]q\x00h\x00a."),
    "storage-bomb": storage_bomb(),
    "pickle-bomb": zeros_member("x/data.pkl", GIB),
    "npz-bomb": zeros_member("a.npy", GIB),
    "npz-liar": zeros_member("a.npy", 2**26, claimed=100),
    "npz-bzip2-liar": bzip2_member("a.npy", GIB, claimed=100),
    "pickle-encoded": torch_zip(encoded_text(2**16, 300_000)),
    "npz-shape": npz(a=npy((2**40,))),
    "npz-token": npz(a=npy("(1,", b"")),
    "npz-deep": npz(a=npy("(" * 3000 + "1" + ",)" * 3000)),
    "npz-negative": npz(a=npy((-1, 4), bytes(16))),
    "npz-object": npz(a=npy((1,), pickle.dumps([1]), "'|O'")),
    "npz-encrypted": flagged(npz(a=npy((1,), bytes(4))), flag=1),
    "npz-method-99": flagged(npz(a=npy((1,), bytes(4))), method=99),
    "npz-deflate-garbage": flagged(npz(a=npy((1,), bytes(4))), method=8),
    "safetensors-deep": safetensors(b'{"a":' + deep + b"]" * 200_000 + b"}"),
    "safetensors-shape": safetensors({"a": {**f32, "shape": [2**60]}}, bytes(4)),
    "safetensors-overlap": safetensors({"a": f32, "b": f32}, bytes(4)),
    "safetensors-gap": safetensors({"a": {**f32, "data_offsets": [4, 8]}}, bytes(8)),
    "safetensors-negative": safetensors({"a": {**f32, "data_offsets": [-4, 0]}}, bytes(4)),
    "safetensors-nan": safetensors(b'{"a": NaN}'),
    "long-integer": torch_zip(b"\x80\x02I" + b"9" * 100_000 + b"\n."),
    "many-handed": many,
    "bytearray": torch_zip(b"\x80\x05\x96" + (2**40).to_bytes(8, "little") + b"."),
    "legacy-count": legacy_file({"w": 1}, {})[:-3] + b"]q\x00.",
  }


def storage_bomb() -> bytes:
  """A storage of a gigabyte of zeros, a megabyte in the file, where the pickle says eight bytes."""
  storages: dict[str, bytes] = {}
  pickled = dump({"w": tensor(np.ones(2), storages)})
  inner = zeros_member("x/data/0", GIB)
  local = zipped({"x/data.pkl": pickled})
  starts = [(data, zipfile.ZipFile(io.BytesIO(data)).start_dir) for data in (local, inner)]
  split = [data[:start] for data, start in starts]
  directory = [data[start : data.rindex(b"PK\x05\x06")] for data, start in starts]
  moved = bytearray(directory[1])
  struct.pack_into("<I", moved, 42, len(split[0]))
  body = b"".join(split)
  central = directory[0] + bytes(moved)
  return body + central + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 2, 2, len(central), len(body), 0)


def tensor_list(count: int) -> bytes:
  """One long list that is handed to the same function again and again."""
  program = b"\x80\x02" + b"(" + b"K\x01K\x02\x86" * 100_000 + b"lq\x00" + b"ccollections\nOrderedDict\nq\x01"
  return torch_zip(program + b"h\x01h\x00\x85R0" * count + b"h\x00.")


def good() -> dict[str, bytes]:
  """Small real files of every format, for damaging."""
  storages: dict[str, bytes] = {}
  tree = {"state_dict": {"w": tensor(np.arange(12.0).reshape(3, 4), storages)}, "epoch": 3}
  buffer = io.BytesIO()
  np.savez_compressed(buffer, a=np.arange(24.0, dtype=np.float32).reshape(2, 3, 4), b=np.arange(3))
  f32 = {"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"format": "pt"}}
  return {
    "zip": zip_file(tree, storages),
    "legacy": legacy_file(tree, storages),
    "npz": buffer.getvalue(),
    "safetensors": safetensors(f32, bytes(24)),
    "reduced": zip_file({"w": Reduced(print, "x")}, {}),
  }


def damaged(data: bytes, chance: np.random.Generator) -> bytes:
  """Bytes with some of them changed, cut out, doubled or cut off."""
  out = bytearray(data)
  for _ in range(int(chance.integers(1, 5))):
    at = int(chance.integers(0, max(len(out), 1)))
    kind = int(chance.integers(0, 6))
    if kind == 0:
      del out[at:]
    elif kind == 1:
      del out[at : at + int(chance.integers(1, 40))]
    elif kind == 2:
      out[at:at] = out[at : at + int(chance.integers(1, 40))]
    elif kind == 3:
      out[at : at + 4] = int(chance.choice([0, 2**31 - 1, 2**32 - 1, 2**31])).to_bytes(4, "little")
    elif at < len(out):
      out[at] = int(chance.integers(0, 256))
  return bytes(out)
