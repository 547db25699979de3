"""Readers of files from anywhere: bounded by what a file holds, one line for what is wrong with it."""

import io
import json
import pickle
import zipfile

import numpy as np
import pytest

from jaxrobust.core.array_pickles import read_array_pickle
from jaxrobust.core.errors import CorruptFileError
from jaxrobust.core.reading import read_npz
from jaxrobust.evaluation.studies.rows import read_index, suite_metrics
from jaxrobust.pods.measure import PodRow
from jaxrobust.pods.store import read_rows
from tests.assault import weights


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_that_python_unpacks_without_a_bound_are_not_unpacked(packing):
  member, file = io.BytesIO(), io.BytesIO()
  np.save(member, np.zeros(3))
  with zipfile.ZipFile(file, "w", packing) as archive:
    archive.writestr("a.npy", member.getvalue())
  with pytest.raises(CorruptFileError, match="neither stored nor deflated"):
    read_npz(file.getvalue(), "some.npz")


def test_a_small_member_may_not_hold_a_large_stream():
  """The size that a member claims is that of a small array; its stream is of 64 MiB."""
  with pytest.raises(CorruptFileError, match="neither stored nor deflated"):
    read_npz(weights.bzip2_member("a.npy", 2**26, claimed=228), "some.npz")


def test_a_text_is_encoded_as_often_as_it_is_there():
  with pytest.raises(CorruptFileError, match="hands over more"):
    read_array_pickle(weights.encoded_text(2**16, 2000))


def test_arrays_for_an_older_python_are_read():
  array = np.arange(256, dtype=np.uint8).repeat(2**14)
  found = read_array_pickle(pickle.dumps({"data": array}, protocol=2))
  assert (found["data"] == array).all()


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "[1]", '{"metrics": 3}', "{}"])
def test_a_damaged_summary_or_index_of_a_study_is_one_line(tmp_path, text):
  (tmp_path / "x.summary.json").write_text(text)
  (tmp_path / "study.json").write_text(text)
  for read in (suite_metrics, read_index):
    with pytest.raises(CorruptFileError) as error:
      read(tmp_path)
    assert "\n" not in str(error.value)


def test_damaged_rows_of_programs_are_left_out(tmp_path):
  row = ["linf-pgd-40", "resnet20", "bfloat16", "highest", "v5e:2x2", 128, 30.0, 4e10, 1e9, 2e9, 16e9]
  good = json.dumps(PodRow(*row).as_dict())
  (tmp_path / "programs.jsonl").write_text("\n".join(["[1]", "[" * 100_000, '{"program": 1}', good, good[:40]]))
  assert len(read_rows(tmp_path / "programs.jsonl")) == 1
