"""Studies: runs by number, all of them by one command that can be repeated, and the table that follows from cells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jaxrobust.cli.main import main
from jaxrobust.evaluation.studies.rows import study_rows
from jaxrobust.report.studies import study_table

pytestmark = pytest.mark.ci

STUDY = """
from ml_collections import ConfigDict

def get_config(arg="all"):
  def row(name, base="", add=(), drop=(), judged=True, group="", against="", options={}, model="", **change):
    given = {"name": name, "base": base, "add": add, "drop": drop, "judged": judged, "against": against, "model": model}
    return ConfigDict({**given, "group": group or name, "options": options, "change": change})

  short = {"epochs": 0.2, "batch_size": 64}
  rows = [
    row("plain-s0", group="plain", **short),
    row("plain-s1", group="plain", seed=1, **short),
    row("tuned", init="{models}/plain-s0", against="plain", learning_rate=0.0, **short),
    row("broken", against="plain", optimizer="sgd", learning_rate=1e30, **short),
    row("from-a-base", "base.py:x", ("mixup",), ("flip",), options={"mixup": {"alpha": 0.5}}, judged=False),
    row("there", against="plain", model="digits32-standard"),
    row("gone", against="plain", model="{models}/nowhere"),
  ]
  judging = {"data": "digits32", "eps": "16/255", "corruptions": ("fog", "contrast"), "severities": (1, 3)}
  return ConfigDict({"study": "small", "runs": tuple(rows), "evaluation": judging})
"""
BASE = """
from ml_collections import ConfigDict

def get_config(arg="x"):
  config = {"epochs": 0.2, "batch_size": 64, "techniques": ("flip", "cutout"), "options": {"cutout": {"size": 4}}}
  return ConfigDict(config)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
  path = tmp_path_factory.mktemp("study")
  (path / "study.py").write_text(STUDY)
  (path / "base.py").write_text(BASE)
  return path


@pytest.fixture(scope="module")
def done(folder) -> Path:
  """The study, run as far as it goes."""
  assert main(["study", "run", f"{folder}/study.py:all", f"--out={folder}/out", "--n=20", "--quiet"]) == 5
  return folder / "out"


def test_a_study_is_trained_judged_and_tabulated_and_goes_on_after_a_failure(done):
  rows = {row["group"]: row for row in study_rows(done)}
  assert list(rows) == ["plain", "tuned", "broken", "there", "gone"]
  assert [len(row["runs"]) for row in rows.values()] == [2, 1, 0, 1, 0]
  assert rows["plain"]["metrics"]["corruptions"] is not None and rows["broken"]["metrics"]["clean"] is None
  # Nothing was learned, so the tuned network is the one it started from.
  start = rows["plain"]["runs"][0]["clean"]
  assert rows["tuned"]["metrics"]["clean"][0] == start
  assert rows["tuned"]["gain"]["clean"] == pytest.approx(start - rows["plain"]["metrics"]["clean"][0])
  # What was there is judged, and nothing is trained for it.
  assert rows["there"]["metrics"]["clean"][0] > 0.9 and not (done / "models" / "there").exists()
  table = (done / "table.md").read_text()
  assert table == study_table(study_rows(done)) and "| plain | - | 2 |" in table
  assert (done / "models" / "from-a-base" / "classifier.json").exists()
  notes = json.loads((done / "models" / "from-a-base" / "classifier.json").read_text())["notes"]["train"]
  assert notes["techniques"] == ["cutout", "mixup"] and notes["options"] == {
    "cutout": {"size": 4},
    "mixup": {"alpha": 0.5},
  }


def test_a_finished_study_computes_nothing_again(done, folder):
  files = {path: path.stat().st_mtime_ns for path in (done / "results").rglob("*.json")}
  only = ["--only=plain*", "--n=20", "--quiet"]
  assert main(["study", "run", f"{folder}/study.py:all", f"--out={done}", *only]) == 0
  assert files == {path: path.stat().st_mtime_ns for path in (done / "results").rglob("*.json")}


def test_one_run_of_a_study_by_its_number(done, folder, capsys):
  assert main(["train", f"--config={folder}/study.py:all", "--index=1", f"--out={done}", "--quiet"]) == 0
  assert "models/plain-s1" in capsys.readouterr().out
  assert main(["study", "list", f"{folder}/study.py:all"]) == 0
  assert "   4  from-a-base" in capsys.readouterr().out
  assert main(["study", "table", str(done), "--json"]) == 0
  assert len(json.loads(capsys.readouterr().out)) == 5


@pytest.mark.parametrize(
  "words, reason",
  [
    (["train", "--config={}/study.py:all", "--out={}/other"], "is a study of 7 runs: choose one by --index"),
    (["train", "--config={}/study.py:all", "--index=9", "--out={}/other"], "has the runs 0 … 6, not 9"),
    (["train", "--config={}/base.py:x", "--index=1", "--out={}/other"], "is one run, not a study"),
    (["study", "run", "{}/study.py:all"], "say where the study goes"),
    (["train", "--config={}/study.py:all", "--index=5", "--out={}/x"], "there judges digits32-standard as it is"),
    (["study", "run", "{}/base.py:x", "--out={}/other"], "is not a study"),
    (["study", "run", "{}/study.py:all", "--out={}/other", "--only=plane"], "unknown run 'plane'; did you mean 'plain"),
    (["study", "table", "{}/nowhere"], "holds no study"),
    (["study", "lst", "{}/study.py:all"], "did you mean 'list'"),
  ],
)
def test_mistakes_are_one_line(folder, words, reason, capsys):
  assert main([word.replace("{}", str(folder)) for word in words]) == 2
  assert reason in capsys.readouterr().err
