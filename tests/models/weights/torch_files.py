"""Writes PyTorch checkpoints, new and old format, without torch: a fake `torch` module lends its names to pickle."""

from __future__ import annotations

import io
import pickle
import sys
import types
import zipfile
from unittest import mock

import numpy as np


def _global(module, name):
  """Something that pickles as a reference to `module.name`."""
  return type(name, (), {"__module__": module, "__qualname__": name})


FLOAT_STORAGE = _global("torch", "FloatStorage")
REBUILD = _global("torch._utils", "_rebuild_tensor_v2")


class Reduced:
  """Pickles as a call of `function(*args)`."""

  def __init__(self, function, *args):
    self.call = function, args

  def __reduce__(self):
    return self.call


class Stored:
  """A storage, written as a persistent reference."""

  def __init__(self, key, count):
    self.id = ("storage", FLOAT_STORAGE, key, "cpu", count)


def tensor(array, storages, size=None, stride=None, offset=0):
  """An array (or another view of it) as PyTorch pickles it."""
  array = np.ascontiguousarray(array, np.float32)
  key = str(len(storages))
  storages[key] = array.tobytes()
  stride = stride or tuple(step // 4 for step in array.strides)
  return Reduced(REBUILD, Stored(key, array.size), offset, tuple(size or array.shape), stride, False, {})


def dump(value, legacy=False):
  class Pickler(pickle.Pickler):
    def persistent_id(self, item):
      if not isinstance(item, Stored):
        return None
      return (*item.id, None) if legacy else item.id

  torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
  torch.FloatStorage, utils._rebuild_tensor_v2 = FLOAT_STORAGE, REBUILD
  buffer = io.BytesIO()
  with mock.patch.dict(sys.modules, {"torch": torch, "torch._utils": utils}):
    Pickler(buffer, 2).dump(value)
  return buffer.getvalue()


def zip_file(value, storages):
  """The format since torch 1.6."""
  buffer = io.BytesIO()
  with zipfile.ZipFile(buffer, "w") as archive:
    archive.writestr("archive/data.pkl", dump(value))
    for key, data in storages.items():
      archive.writestr(f"archive/data/{key}", data)
  return buffer.getvalue()


def legacy_file(value, storages):
  """The format before it."""
  head = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]
  parts = [*(pickle.dumps(item, 2) for item in head), dump(value, legacy=True), pickle.dumps(sorted(storages), 2)]
  for key in sorted(storages):
    parts += [(len(storages[key]) // 4).to_bytes(8, "little"), storages[key]]
  return b"".join(parts)
