"""Weight files that claim too much are refused in one line, at once, and in little memory; nothing in them runs."""

import os
import resource
import time

import numpy as np
import pytest

from jaxrobust.core.errors import CorruptFileError, InputError, JaxrobustError
from jaxrobust.models.weights.torch_pickle import read_torch_pickle
from jaxrobust.models.weights.weight_files import read_weights
from tests.assault import weights
from tests.models.weights.torch_files import tensor, zip_file

BOMBS = weights.bombs()
# A memo of one entry with a large number, keys that are dropped, and an older file without tensors, are odd but small.
HARMLESS = ("memo", "key-tuple-60", "key-tuple-deep", "legacy-count", "pickle-encoded")


def peak():
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_quickly_and_in_little_memory(tmp_path, name):
  path = tmp_path / "weights.pth"
  path.write_bytes(BOMBS[name])
  began, before = time.monotonic(), peak()
  try:
    read_weights(path)
    assert name in HARMLESS
  except JaxrobustError as error:
    assert str(error).startswith(str(path)) and "\n" not in str(error) and len(str(error)) < 600
    assert name not in HARMLESS
  assert time.monotonic() - began < 10 and peak() - before < 2**29


def test_code_is_not_executed(tmp_path):
  target = tmp_path / "executed"
  for name, data in weights.executing(str(target)).items():
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises((InputError, CorruptFileError)):
      read_weights(path)
  assert not target.exists()


def test_tensors_that_share_a_storage_share_its_memory():
  storages = {}
  one = np.ones(2**20)
  shared = tensor(one, storages)
  found = read_torch_pickle(zip_file({f"w{i}": shared for i in range(500)}, storages))
  assert len(found) == 500 and np.shares_memory(found["w0"], found["w499"])


def test_a_device_or_a_fifo_is_no_weight_file(tmp_path):
  os.mkfifo(tmp_path / "fifo")
  os.symlink("/dev/zero", tmp_path / "zero")
  for name in ("fifo", "zero"):
    with pytest.raises(CorruptFileError, match="not a regular file"):
      read_weights(tmp_path / name)
