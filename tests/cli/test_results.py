"""`jaxrobust results` and `jaxrobust report` on the command line."""

import csv
import io
import json
import sys

import pytest

from tests.cli.calling import call
from tests.report.synthetic import write_model


@pytest.fixture(scope="module")
def root(tmp_path_factory):
  folder = tmp_path_factory.mktemp("cli") / "results"
  for at, name in enumerate("ab"):
    write_model(folder, name, at)
  return folder


def test_a_query_in_every_format(root, tmp_path):
  pytest.importorskip("duckdb")
  sql = "SELECT model, attack, robust_accuracy AS acc FROM cells WHERE eps = '8/255' AND source IS NULL ORDER BY ALL"
  code, out, err = call("results", sql, "--root", root)
  assert code == 0 and not err and out.split()[:3] == ["model", "attack", "acc"] and out.count("\n") == 7
  rows = list(csv.DictReader(io.StringIO(call("results", sql, "--root", root, "--format=csv")[1])))
  lines = [json.loads(line) for line in call("results", sql, "--root", root, "--format=json")[1].splitlines()]
  assert [row["attack"] for row in rows] == [line["attack"] for line in lines]
  assert [float(row["acc"]) for row in rows] == [line["acc"] for line in lines]
  assert call("results", sql, "--root", root, "--format=parquet", "--out", tmp_path / "a.parquet")[0] == 0
  import pandas

  assert pandas.read_parquet(tmp_path / "a.parquet").acc.tolist() == [line["acc"] for line in lines]
  assert call("results", "--root", root)[1].splitlines()[1].split() == ["a", "digits", "12", "6", "4", "0"]


def test_damaged_files_are_findings(root, tmp_path):
  pytest.importorskip("duckdb")
  write_model(tmp_path / "r", "a", 0, rich=False)
  (tmp_path / "r" / "bad.n1.seed0.json").write_text("{")
  code, out, err = call("results", "SELECT count(*) AS n FROM cells", "--root", tmp_path / "r")
  assert code == 0 and out.split() == ["n", "7"]
  assert err.startswith("finding: bad.n1.seed0.json: truncated") and err.count("\n") == 1
  code, out, err = call("report", tmp_path / "r", "--out", tmp_path / "site", "--plots=no")
  assert code == 0 and out.startswith("finding: ") and out.splitlines()[-1] == f"the page is {tmp_path}/site/index.html"


def test_import_export_and_migrate(root, tmp_path):
  record = {"schema": 0, "model": "x", "data": "cifar10", "n": 10, "accuracy": 0.5}
  (tmp_path / "r").mkdir()
  (tmp_path / "r" / "x.n10.seed0.json").write_text(json.dumps(record))
  assert call("results", "migrate", "--root", tmp_path / "r")[1].startswith("1 cells of earlier schemas")
  assert call("results", "export", "oodrobustbench", tmp_path / "out", "--root", tmp_path / "r")[1].startswith(
    "1 files"
  )
  code, out, _ = call("results", "import", "oodrobustbench", tmp_path / "out", "--root", tmp_path / "s")
  assert code == 0 and out == f"1 new files in {tmp_path}/s\n"


@pytest.mark.parametrize(
  ("code", "reason", "words"),
  [
    (2, "the query failed: ", ["results", "SELEC", "--root={root}"]),
    (2, "write the query in quotes", ["results", "SELECT", "*"]),
    (2, "unknown format 'xls'", ["results", "SELECT 1", "--format=xls"]),
    (2, "parquet needs a file", ["results", "SELECT 1", "--root={root}", "--format=parquet"]),
    (2, "takes a format and a path", ["results", "import", "robustbench"]),
    (2, "import takes no --out; the results folder is --root", ["results", "import", "nas", "{tmp}", "--out={tmp}/r"]),
    (2, "format is oodrobustbench-leaderboard", ["results", "import", "oodrobustbench", "{tmp}/board.csv"]),
    (2, "unknown format 'rb'", ["results", "export", "rb", "{tmp}", "--root={root}"]),
    (3, "cannot read results from {tmp}/none: no such folder", ["results", "SELECT 1", "--root={tmp}/none"]),
    (3, "cannot read results from {tmp}/none: no such folder", ["report", "{tmp}/none", "--out={tmp}/site"]),
    (
      3,
      "cannot write {root}/a/digits/clean/none.n40.seed0.json/",
      ["report", "{root}", "--out={root}/a/digits/clean/none.n40.seed0.json"],
    ),
    (2, "say which results", ["report"]),
    (2, "plots are auto, yes or no", ["report", "{root}", "--plots=3"]),
  ],
)
def test_errors_are_one_line(code, reason, words, root, tmp_path):
  (tmp_path / "board.csv").write_text("name,ID acc\n")
  fill = lambda text: text.format(root=root, tmp=tmp_path)
  found, out, err = call(*map(fill, words))
  assert err.startswith("error: ") and err.count("\n") == 1 and fill(reason) in err, err
  assert (found, out) == (code, "")


@pytest.mark.parametrize("package", ["duckdb", "pandas", "pyarrow"])
def test_a_missing_package_is_one_line_with_the_command_that_installs_it(package, root, monkeypatch):
  monkeypatch.setitem(sys.modules, package, None)
  monkeypatch.setitem(sys.modules, f"{package}.parquet", None)
  code, _, err = call("results", "SELECT 1", "--root", root)
  assert (
    code == 2
    and err
    == f"error: {err[7:].split(' needs')[0]} needs {package}, which is not installed: pip install 'jaxrobust[report]'\n"
  )


def test_the_page_needs_no_optional_package(root, tmp_path, monkeypatch):
  for package in ("duckdb", "pandas", "pyarrow", "matplotlib", "matplotlib.pyplot", "fsspec"):
    monkeypatch.setitem(sys.modules, package, None)
  code, _, err = call("report", root, "--out", tmp_path / "site", "--plots=no")
  assert code == 0 and not err and (tmp_path / "site" / "index.html").is_file()
  code, _, err = call("report", root, "--out", tmp_path / "site", "--plots=yes")
  assert code == 2 and "pip install 'jaxrobust[report]'" in err and err.count("\n") == 1


def test_texts_of_others_are_shown_and_not_obeyed(root, tmp_path):
  pytest.importorskip("duckdb")
  code, out, _ = call("results", "SELECT '=cmd|x' AS a, chr(27) || '[2J' AS \"+b\"", "--root", root, "--format=csv")
  assert code == 0 and out.splitlines() == ["a,'+b", "'=cmd|x, [2J"]
  code, out, _ = call("results", "SELECT chr(27) || '[2Jred' AS a", "--root", root)
  assert code == 0 and "\x1b" not in out and "\\x1b[2Jred" in out


def test_an_answer_that_cannot_be_written_is_one_line(root, tmp_path):
  pytest.importorskip("duckdb")
  (tmp_path / "file").write_text("")
  for kind in ("csv", "parquet"):
    words = ["SELECT model FROM cells", "--root", root, f"--format={kind}", "--out", tmp_path / "file" / "x"]
    code, out, err = call("results", *words)
    assert (code, out, err.count("\n")) == (3, "", 1) and err.startswith("error: cannot write"), err


def test_two_reports_into_one_folder_do_not_overwrite_each_other_silently(root, tmp_path):
  write_model(tmp_path / "other", "c", 1, rich=False)
  out = tmp_path / "site"
  assert "replaces" not in call("report", root, "--out", out, "--plots=no")[1]
  assert "replaces" not in call("report", root, "--out", out, "--plots=no")[1]
  code, said, _ = call("report", tmp_path / "other", "--out", out, "--plots=no")
  assert code == 0 and f"finding: {out} showed {root} before; this report replaces it" in said
  from jaxrobust.report.writers import only_writer

  with only_writer(out, [str(root)]):
    code, _, err = call("report", root, "--out", out, "--plots=no")
  assert code == 2 and err.startswith(f"error: another process is writing a report to {out}; wait for it")
