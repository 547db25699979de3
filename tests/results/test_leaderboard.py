"""OODRobustBench's leaderboard as cells, and cells as a leaderboard."""

from __future__ import annotations

import csv
import io

import pytest

from jaxrobust.analysis.zoo import read_csv
from jaxrobust.analysis.zoo_cells import read_cells
from jaxrobust.core.errors import CorruptFileError, StorageError
from jaxrobust.results import load_results
from jaxrobust.results.exchange import export_results, import_results
from jaxrobust.results.exchange.leaderboard import _table

NAME = "oodrobustbench-leaderboard"
FILE = "oodrobustbench_cifar10_Linf.csv"
HEAD = (
  "Rank,Method,ID clean acc.,ID robust acc.,OOD robust acc.,OOD-D clean acc.,OOD-D robust acc.,OOD-T robust acc.,Arch."
)
TEXT = f"""{HEAD}
1,"AS, an ensemble",95.23%,69.50%,45.01%,79.09%,43.32%,46.71%,R152
2,BDM,93.25%,70.76%,40.14%,76.04%,44.49%,35.80%,WRN
3,BDM,92.44%,67.34%,38.80%,75.04%,42.34%,35.26%,WRN
"""


def test_there_and_back(tmp_path):
  (tmp_path / FILE).write_text(TEXT)
  assert len(import_results(NAME, tmp_path / FILE, tmp_path / "r")) == 15
  cells = {
    (r.cell.model, r.cell.condition, r.cell.id): r.summary["robust_accuracy"] for r in load_results(tmp_path / "r")
  }
  assert cells["BDM, WRN.Linf", "ood-d-mean", "linf-mm5@8/255"] == pytest.approx(0.4449)
  assert cells["BDM, WRN #2.Linf", "ood-t-mean", "unforeseen-mean"] == pytest.approx(0.3526)
  one, other = read_csv(tmp_path / FILE), read_cells(tmp_path / "r")
  for name in ("ID accuracy", "ID robustness", "OOD_d accuracy", "OOD_d robustness", "OOD_t robustness"):
    assert sorted(one.column(name)) == pytest.approx(sorted(other.column(name)))
  assert sorted(one.column("OOD robustness")) == pytest.approx(sorted(other.column("OOD robustness")), abs=0.0051)
  (path,) = export_results(NAME, tmp_path / "r", tmp_path / "out")
  rows = list(csv.DictReader(io.StringIO(TEXT)))
  again = list(csv.DictReader(path.open()))
  columns = ("Rank", "Method", "ID robust acc.", "OOD-D clean acc.", "OOD-T robust acc.", "Arch.")
  assert path.name == FILE and [[row[c] for c in columns] for row in again] == [
    [row[c] for c in columns] for row in rows
  ]
  # Importing again adds nothing.
  assert not import_results(NAME, tmp_path / FILE, tmp_path / "r")


@pytest.mark.parametrize(
  ("name", "text", "reason"),
  [
    ("board.csv", TEXT, "the name must say data set and threat, one of cifar10_Linf"),
    ("imagenet_L2.csv", TEXT, "the name must say data set and threat"),
    (FILE, "Rank,ID clean acc.\n1,90%\n", "no column Method"),
    (FILE, TEXT.replace("69.50%", "much"), "ID robust acc. of AS, an ensemble is 'much'; expected an accuracy"),
    (FILE, TEXT.replace("69.50%", "169%"), "expected an accuracy"),
    (FILE, '"a', "not a CSV file"),
  ],
)
def test_other_files_are_refused_in_one_line(tmp_path, name, text, reason):
  (tmp_path / name).write_text(text)
  with pytest.raises(CorruptFileError) as error:
    import_results(NAME, tmp_path / name, tmp_path / "r")
  assert reason in str(error.value) and "\n" not in str(error.value) and not (tmp_path / "r").exists()


def test_a_file_that_is_not_there(tmp_path):
  with pytest.raises(StorageError, match="no such file"):
    import_results(NAME, tmp_path / "none.csv", tmp_path / "r")


def test_names_that_spreadsheets_would_run_are_neutralized():
  row = {"ID clean acc.": 90.0, "ID robust acc.": 50.0}
  text = _table({"m": row}, {"m": ("=cmd|'/c calc'!A0", "\x1b[2J@x")})
  assert ",'=cmd|" in text and "\x1b" not in text
