"""PyTorch files without torch: both formats, and refusals of everything that is not a tensor."""

import collections
import io
import os
import pickle
import zipfile

import numpy as np
import pytest

from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.models.weights.torch_pickle import read_torch_pickle
from tests import realdata
from tests.models.weights.torch_files import Reduced, legacy_file, tensor, zip_file

FORMATS = pytest.mark.parametrize("write", [zip_file, legacy_file])


@FORMATS
def test_nested_dicts_tensors_and_views_come_back(write):
  storages = {}
  weight = np.arange(6.0).reshape(2, 3)
  tree = {
    "epoch": 3,
    "state_dict": collections.OrderedDict(weight=tensor(weight, storages), empty=tensor(np.zeros((0, 2)), storages)),
    "turned": tensor(weight, storages, (3, 2), (1, 3)),
    "part": tensor(weight, storages, (2,), (1,), 4),
    "scalar": tensor(np.array([7.0]), storages, (), (), 0) if write is zip_file else None,
  }
  found = read_torch_pickle(write(tree, storages))
  assert found["epoch"] == 3
  np.testing.assert_array_equal(found["state_dict"]["weight"], weight.astype(np.float32))
  assert found["state_dict"]["empty"].shape == (0, 2) and found["state_dict"]["weight"].flags.writeable
  np.testing.assert_array_equal(found["turned"], weight.T)
  np.testing.assert_array_equal(found["part"], [4, 5])


class Marker:
  """Would leave a file behind if anything in the pickle were called."""

  def __init__(self, path, function):
    self.path, self.function = path, function

  def __reduce__(self):
    return self.function, (f"touch {self.path}",)


@FORMATS
@pytest.mark.parametrize(("function", "name"), [(os.system, "system"), (eval, "eval"), (exec, "exec")])
def test_a_malicious_pickle_is_refused_by_name_and_nothing_runs(write, function, name, tmp_path):
  target = tmp_path / "executed"
  data = write({"state_dict": Marker(target, function)}, {})
  with pytest.raises(
    InputError, match=rf"asks for \w+\.{name}, and only tensors are read; nothing was executed"
  ) as error:
    read_torch_pickle(data)
  assert "\n" not in str(error.value) and not target.exists()


def test_a_bare_malicious_pickle_is_refused_too(tmp_path):
  with pytest.raises(InputError, match=r"asks for posix\.system"):
    read_torch_pickle(pickle.dumps(Marker(tmp_path / "executed", os.system)))


@pytest.mark.parametrize("name", ["OrderedDict.fromkeys", "namedtuple"])
def test_neighbors_of_allowed_names_are_refused(name):
  data = b"\x80\x04\x8c\x0bcollections\x8c" + bytes([len(name)]) + name.encode() + b"\x93."
  buffer = io.BytesIO()
  with zipfile.ZipFile(buffer, "w") as archive:
    archive.writestr("x/data.pkl", data)
  with pytest.raises(InputError, match=f"asks for collections.{name}"):
    read_torch_pickle(buffer.getvalue())


def test_the_readers_own_functions_cannot_be_changed():
  # BUILD on the allowed constructor itself.
  data = b"\x80\x02ccollections\nOrderedDict\n}X\x08\x00\x00\x00functionK\x01sb."
  buffer = io.BytesIO()
  with zipfile.ZipFile(buffer, "w") as archive:
    archive.writestr("x/data.pkl", data)
  with pytest.raises(CorruptFileError, match="attempt to change the reader"):
    read_torch_pickle(buffer.getvalue())


def test_settings_of_training_scripts_are_inert():
  import argparse

  storages = {}
  tree = {"args": argparse.Namespace(lr=0.1), "best": np.float64(0.9), "x": tensor(np.ones(2), storages)}
  found = read_torch_pickle(zip_file(tree, storages))
  assert found["args"] is None and found["best"] is None and found["x"].sum() == 2


@FORMATS
@pytest.mark.parametrize("view", [((9,), (1,), 0), ((2,), (1,), 5), ((2,), (-1,), 3), ((2, 2), (4, 1), 1)])
def test_a_view_beyond_its_storage_is_refused(write, view):
  storages = {}
  tree = {"x": tensor(np.arange(6.0), storages, *view)}
  with pytest.raises(CorruptFileError, match="reaches beyond its storage"):
    read_torch_pickle(write(tree, storages))


@FORMATS
@pytest.mark.parametrize("part", [0.02, 0.3, 0.6, 0.97])
def test_truncated_files_are_refused_in_one_line(write, part):
  storages = {}
  data = write({"a": tensor(np.ones(50), storages), "b": tensor(np.ones(50), storages)}, storages)
  with pytest.raises(CorruptFileError) as error:
    read_torch_pickle(data[: int(len(data) * part)])
  assert "\n" not in str(error.value)


def test_missing_and_short_storages_are_refused():
  storages = {}
  tree = {"x": tensor(np.ones(5), storages)}
  for broken in ({}, {"0": storages["0"][:-4]}):
    with pytest.raises(CorruptFileError):
      read_torch_pickle(zip_file(tree, broken))


def test_pickles_that_call_the_rebuilder_with_nonsense_are_refused():
  from tests.models.weights.torch_files import REBUILD

  with pytest.raises(CorruptFileError, match="a tensor without a storage"):
    read_torch_pickle(zip_file({"x": Reduced(REBUILD, 1, 0, (2,), (1,))}, {}))


@realdata.needs_data
@pytest.mark.data
@pytest.mark.parametrize(("file", "npz"), [("resnet20-12fca82f.th", "resnet20"), ("resnet2b.pth", "resnet2b_adv")])
def test_published_files_hold_the_weights_of_their_npz_copies(file, npz):
  found = read_torch_pickle((realdata.ROOT / "weights" / file).read_bytes())["state_dict"]
  with np.load(realdata.ROOT / "weights" / f"cifar10_{npz}.npz") as data:
    wanted = dict(data)
  assert {name.removeprefix("module.") for name in found} == set(wanted)
  for name, array in found.items():
    np.testing.assert_array_equal(array, wanted[name.removeprefix("module.")])
