"""Progress comes back whole or not at all, and never as an error."""

import numpy as np
import pytest

from jaxrobust.core.errors import InputError
from jaxrobust.results.partial import load_partial, partial_path, remove_partial, save_partial

CONFIG = {"attack": {"num_steps": 20}}
ARRAYS = {
  "file": np.arange(6, dtype=np.int32).reshape(2, 3),
  "done": np.array([True, False]),
  "x": np.zeros(0),
}


@pytest.fixture
def cell_path(tmp_path):
  path = tmp_path / "m" / "a@8_255.n5.seed0.json"
  save_partial(path, CONFIG, ARRAYS, {"next": 2})
  return path


def test_round_trip(cell_path):
  assert [p.name for p in cell_path.parent.iterdir()] == ["a@8_255.n5.seed0.partial.npz"]
  arrays, meta = load_partial(cell_path, {"attack": {"num_steps": 20.0}})
  assert meta == {"next": 2} and set(arrays) == set(ARRAYS)
  for name, array in ARRAYS.items():
    assert arrays[name].dtype == array.dtype
    np.testing.assert_array_equal(arrays[name], array)


def test_rewrite_replaces(cell_path):
  save_partial(cell_path, CONFIG, {}, {"next": 5})
  assert load_partial(cell_path, CONFIG) == ({}, {"next": 5})


def test_absent_other_config_and_removed(cell_path):
  assert load_partial(cell_path.with_name("other.json"), CONFIG) is None
  assert load_partial(cell_path, {"attack": {"num_steps": 21}}) is None
  assert load_partial(cell_path, CONFIG) is not None
  remove_partial(cell_path)
  remove_partial(cell_path)
  assert load_partial(cell_path, CONFIG) is None


def test_truncated_is_none(cell_path):
  path = partial_path(cell_path)
  whole = path.read_bytes()
  for size in range(0, len(whole), 13):
    path.write_bytes(whole[:size])
    assert load_partial(cell_path, CONFIG) is None


def test_flipped_bytes_never_give_other_values(cell_path):
  path = partial_path(cell_path)
  whole = path.read_bytes()
  for place in range(len(whole)):
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
    loaded = load_partial(cell_path, CONFIG)
    if loaded is not None:
      assert loaded[1] == {"next": 2}
      assert all((loaded[0][name] == array).all() for name, array in ARRAYS.items())


def test_foreign_files_are_none(cell_path):
  path = partial_path(cell_path)
  with open(path, "wb") as file:
    np.savez(file, a=np.zeros(1))
  assert load_partial(cell_path, CONFIG) is None
  with open(path, "wb") as file:
    np.save(file, np.array([{}], object), allow_pickle=True)
  assert load_partial(cell_path, CONFIG) is None
  path.unlink()
  path.mkdir()
  assert load_partial(cell_path, CONFIG) is None


def test_objects_are_refused(cell_path):
  with pytest.raises(InputError, match="Python objects"):
    save_partial(cell_path, CONFIG, {"x": np.array([{}], object)}, {})
