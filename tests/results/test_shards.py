"""Shards merge into exactly what one process would have written."""

import dataclasses

import numpy as np
import pytest

from jaxrobust.core.errors import CellMismatchError, CorruptFileError, InputError
from jaxrobust.results import shards as module
from jaxrobust.results.cell import to_text
from jaxrobust.results.shards import find_shard, finish_shards, merge_shards, save_shard, shard_path
from jaxrobust.results.store import save_result, save_timing, sibling


def summarize(examples):
  summary = {"robust": int(examples["robust"].sum()), "n": len(examples["robust"])}
  return summary, [{"kind": "nan-distance", "count": int(np.isnan(examples["distance"]).sum())}]


def save_all(root, shards):
  return [save_shard(root, shard, i, len(shards)) for i, shard in enumerate(shards)]


def with_arrays(shard, **arrays):
  return dataclasses.replace(shard, examples={**shard.examples, **arrays})


def test_paths():
  assert shard_path("r/a.n5.seed0.json", 1, 2).as_posix() == "r/a.n5.seed0.shard-00001-of-00002.json"
  with pytest.raises(InputError, match="no shard 2 of 2"):
    shard_path("a.json", 2, 2)


def test_merge_equals_one_process(tmp_path, result, shards):
  paths = save_all(tmp_path, shards)
  assert to_text(merge_shards(paths, summarize)) == to_text(result)
  assert to_text(merge_shards(paths[::-1], summarize)) == to_text(result)


def test_finish(tmp_path, result, shards):
  assert finish_shards(tmp_path, result.cell, 2, summarize) is None
  first = save_shard(tmp_path, shards[0], 0, 2)
  assert finish_shards(tmp_path, result.cell, 2, summarize) is None and first.exists()
  stale = save_shard(tmp_path, shards[0], 2, 3)
  paths = [first, save_shard(tmp_path, shards[1], 1, 2)]
  for path in (*paths, stale):
    save_timing(path, {"seconds": 1})
  final = finish_shards(tmp_path, result.cell, 2, summarize, lambda found: {".txt": f"{found == paths}"})
  assert final == result.cell.path(tmp_path) and final.read_text() == to_text(result)
  beside = sibling(final, ".txt")
  assert set(final.parent.iterdir()) == {final, beside} and beside.read_text() == "True"
  assert finish_shards(tmp_path, result.cell, 2, summarize) == final


@pytest.mark.parametrize("when", ["reading the shards", "reading what lies beside them"])
def test_another_process_finishes_first(tmp_path, monkeypatch, result, shards, when):
  paths = save_all(tmp_path, shards)
  load = module.load_result

  def be_late():
    save_result(tmp_path, result)
    sibling(paths[0], ".txt").write_text("whole")
    for shard in paths:
      shard.unlink()

  def load_late(path):
    if path == paths[1] and when == "reading the shards":
      be_late()
    return load(path)

  def combine_late(_):
    be_late()
    return {".txt": "half"}

  monkeypatch.setattr(module, "load_result", load_late)
  final = finish_shards(tmp_path, result.cell, 2, summarize, combine_late)
  assert final is not None and final.read_text() == to_text(result)
  assert [path.read_text() for path in tmp_path.rglob("*.txt")] == ["whole"]


def test_an_empty_shard_is_fine(tmp_path, result, shards):
  empty = dataclasses.replace(shards[0], examples={k: a[:0] for k, a in shards[0].examples.items()})
  assert to_text(merge_shards(save_all(tmp_path, [*shards, empty]), summarize)) == to_text(result)


def test_findings_are_those_of_the_whole(tmp_path, result, shards):
  misled = [dataclasses.replace(shard, findings=[{"kind": "of a part"}]) for shard in shards]
  assert list(merge_shards(save_all(tmp_path, misled), summarize).findings) == list(result.findings)


def test_missing_and_overlapping_examples(tmp_path, shards):
  paths = save_all(tmp_path, shards)
  with pytest.raises(CorruptFileError, match=r"miss 2 of 5 examples \(first: 1\)"):
    merge_shards(paths[:1], summarize)
  twice = with_arrays(shards[1], index=np.array([1, 2], np.int32))
  with pytest.raises(CorruptFileError, match=r"overlap .example 2 is held 2 times"):
    merge_shards(save_all(tmp_path, [shards[0], twice]), summarize)
  outside = with_arrays(shards[1], index=np.array([1, 7], np.int32))
  with pytest.raises(CorruptFileError, match="example 7, outside 0 … 4"):
    merge_shards(save_all(tmp_path, [shards[0], outside]), summarize)


def test_shards_that_do_not_belong_together(tmp_path, result, shards):
  other = dataclasses.replace(shards[1], config={**result.config, "model": "cd34"})
  with pytest.raises(CellMismatchError, match=r'model \(there "ab12", here "cd34"\); remove the outdated'):
    merge_shards(save_all(tmp_path, [shards[0], other]), summarize)
  more = with_arrays(shards[1], extra=np.zeros(2, bool))
  with pytest.raises(CorruptFileError, match=r"other arrays .*extra"):
    merge_shards(save_all(tmp_path, [shards[0], more]), summarize)
  typed = with_arrays(shards[1], index=np.array([1, 3], np.float32))
  with pytest.raises(CorruptFileError, match="not a shard"):
    merge_shards(save_all(tmp_path, [shards[0], typed]), summarize)
  with pytest.raises(CorruptFileError, match="not a shard"):
    merge_shards([save_result(tmp_path, result)], summarize)
  with pytest.raises(InputError, match="no shards"):
    merge_shards([], summarize)
  with pytest.raises(InputError, match="needs an array 'index'"):
    save_shard(tmp_path, result, 0, 1)


def test_a_truncated_shard_is_refused(tmp_path, result, shards):
  paths = save_all(tmp_path, shards)
  paths[1].write_bytes(paths[1].read_bytes()[:-20])
  with pytest.raises(CorruptFileError, match="remove the file to compute"):
    finish_shards(tmp_path, result.cell, 2, summarize)
  assert not result.cell.path(tmp_path).exists()


def test_find_shard(tmp_path, result, shards):
  assert find_shard(tmp_path, result.cell, result.config, 0, 2) is None
  save_all(tmp_path, shards)
  found = find_shard(tmp_path, result.cell, result.config, 0, 2)
  assert found is not None and to_text(found) == to_text(shards[0])
  with pytest.raises(CellMismatchError, match="model"):
    find_shard(tmp_path, result.cell, {**result.config, "model": "x"}, 0, 2)
