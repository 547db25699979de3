"""Files are whole or absent, and every refusal is one line that says what to do."""

import dataclasses
import errno
import os
import subprocess
import sys

import pytest

from jaxrobust.core import files as core_files
from jaxrobust.core.errors import CellMismatchError, CorruptFileError, StorageError
from jaxrobust.results.cell import to_text
from jaxrobust.results.partial import save_partial
from jaxrobust.results.reader import load_results
from jaxrobust.results.shards import save_shard
from jaxrobust.results.store import (
  atomic_write,
  check_writable,
  find_result,
  load_result,
  save_result,
  save_timing,
)

pytestmark = pytest.mark.smoke


def files(root):
  return sorted(path.name for path in root.rglob("*") if path.is_file())


def test_save_find_load(tmp_path, result):
  assert find_result(tmp_path, result.cell, result.config) is None
  path = save_result(tmp_path, result)
  before = path.read_bytes()
  found = find_result(tmp_path, result.cell, result.config)
  assert found is not None and to_text(found) == to_text(result)
  assert save_result(tmp_path, found) == path
  assert path.read_bytes() == before and files(tmp_path) == [path.name]


def test_provenance_is_not_compared(tmp_path, result):
  save_result(tmp_path, dataclasses.replace(result, provenance={"platform": "tpu"}))
  assert find_result(tmp_path, result.cell, result.config).provenance == {"platform": "tpu"}


def test_mismatch_names_the_keys(tmp_path, result):
  save_result(tmp_path, result)
  config = {**result.config, "attack": {"name": "pgd", "num_steps": 40, "alpha": 0.1}}
  with pytest.raises(CellMismatchError) as error:
    find_result(tmp_path, result.cell, config)
  text = str(error.value)
  assert "attack.num_steps (stored 20, asked 40);" in text and "alpha" not in text
  assert str(result.cell.path(tmp_path)) in text
  assert text.endswith("use another results folder or remove the file") and "\n" not in text


def test_mismatch_shows_three_and_counts_the_rest(tmp_path, result):
  save_result(tmp_path, result)
  config = {"attack": {"name": "fgsm", "restarts": 1}, "model": "x" * 500, "stages": []}
  with pytest.raises(CellMismatchError, match="and 3 more; use another") as error:
    find_result(tmp_path, result.cell, config)
  assert "attack.alpha (stored 0.1, asked absent)" in str(error.value)
  assert len(str(error.value)) < 500


def test_a_file_in_another_cells_place_is_noticed(tmp_path, result):
  other = dataclasses.replace(result.cell, model="CNN")
  atomic_write(other.path(tmp_path), to_text(result))
  with pytest.raises(CellMismatchError, match=r'cell\.model \(stored "cnn", asked "CNN"\)'):
    find_result(tmp_path, other, result.config)


def test_truncation_at_any_length_is_noticed(tmp_path, result):
  path = save_result(tmp_path, result)
  whole = path.read_bytes()
  for size in [0, 1, 2, *range(3, len(whole) - 1, 7), len(whole) - 2]:
    path.write_bytes(whole[:size])
    with pytest.raises(CorruptFileError, match="remove the file to compute the cell again") as error:
      find_result(tmp_path, result.cell, result.config)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_loading_what_is_no_file(tmp_path):
  with pytest.raises(StorageError, match=r"cannot read .*no such file"):
    load_result(tmp_path / "absent.json")
  with pytest.raises(StorageError, match="cannot read"):
    load_result(tmp_path)


def test_unwritable_folder(tmp_path, result):
  blocked = tmp_path / "file"
  blocked.write_text("")
  for root in (blocked, blocked / "below"):
    with pytest.raises(StorageError, match=r"cannot write results to .*file") as error:
      check_writable(root)
    assert "\n" not in str(error.value)
    with pytest.raises(StorageError, match=r"cannot write .*seed0.json"):
      save_result(root, result)
    assert find_result(root, result.cell, result.config) is None


def test_writable_folder_is_made_and_left_clean(tmp_path):
  check_writable(tmp_path / "a" / "b")
  assert (tmp_path / "a" / "b").is_dir() and files(tmp_path) == []


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_full_disk_leaves_the_old_file(tmp_path, monkeypatch, step):
  def fail(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

  atomic_write(tmp_path / "a.json", "old")
  monkeypatch.setattr(core_files.os, step, fail)
  with pytest.raises(StorageError, match=r"cannot write .*a\.json: No space left on device"):
    atomic_write(tmp_path / "a.json", "new")
  assert (tmp_path / "a.json").read_text() == "old" and files(tmp_path) == ["a.json"]


def test_interrupted_writer_leaves_the_old_file(tmp_path, monkeypatch):
  def interrupt(*_):
    raise KeyboardInterrupt

  atomic_write(tmp_path / "a.json", b"old")
  monkeypatch.setattr(core_files.os, "replace", interrupt)
  with pytest.raises(KeyboardInterrupt):
    atomic_write(tmp_path / "a.json", b"new")
  assert (tmp_path / "a.json").read_bytes() == b"old" and files(tmp_path) == ["a.json"]


def test_killed_writer_leaves_only_a_file_nobody_reads(tmp_path, result):
  program = (
    "import os, sys; from jaxrobust.results.store import atomic_write; "
    "os.replace = lambda *_: os._exit(9); atomic_write(sys.argv[1], 'x')"
  )
  path = result.cell.path(tmp_path)
  assert subprocess.run([sys.executable, "-c", program, str(path)], timeout=60).returncode == 9
  assert len(files(tmp_path)) == 1
  assert find_result(tmp_path, result.cell, result.config) is None
  assert list(load_results(tmp_path)) == []


def test_timing_lies_beside_the_cell(tmp_path, result):
  path = save_result(tmp_path, result)
  timing = save_timing(path, {"seconds": 1.5, "efficiency": float("nan")})
  assert timing.name == "linf-pgd-20@8_255.n5.seed0.timing.json"
  assert timing.read_text() == '{\n "efficiency": null,\n "seconds": 1.5\n}\n'


def test_load_results_reads_cells_only(tmp_path, result, shards):
  cells = [dataclasses.replace(result.cell, seed=seed, model=model) for seed in (1, 0) for model in "ba"]
  for cell in cells:
    path = save_result(tmp_path, dataclasses.replace(result, cell=cell))
  save_timing(path, {})
  save_partial(path, {}, {}, {})
  save_shard(tmp_path, shards[0], 0, 2)
  (tmp_path / "notes.json").write_text("{}")
  (path.parent / ".tmp-1-ab").write_text("{")
  found = [(r.cell.model, r.cell.seed) for r in load_results(tmp_path)]
  assert found == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


def test_load_results_and_damaged_files(tmp_path, result):
  bad = save_result(tmp_path, dataclasses.replace(result, cell=dataclasses.replace(result.cell, model="a")))
  save_result(tmp_path, result)
  bad.write_text("{")
  with pytest.raises(CorruptFileError, match="truncated"):
    list(load_results(tmp_path))
  errors = []
  assert [r.cell.model for r in load_results(tmp_path, errors.append)] == ["cnn"]
  assert len(errors) == 1 and str(bad) in str(errors[0])
  with pytest.raises(StorageError, match="no such folder"):
    load_results(tmp_path / "absent")
