"""`jaxrobust trends` on the command line."""

from __future__ import annotations

import csv
import json
import sys

import numpy as np
import pytest

from jaxrobust.results import Cell, Result, save_result
from tests.analysis.test_without_labels import zoo_cells
from tests.cli.calling import call, refused

LABELS = ("trades", "pgd-at")


@pytest.fixture(scope="module")
def board(tmp_path_factory):
  """Twenty models about y = 0.7 x - 5, one of which falls."""
  rng = np.random.default_rng(0)
  path = tmp_path_factory.mktemp("trends") / "board.csv"
  with path.open("w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["Rank", "model", "technique", "params", "ID clean acc.", "ID robust acc.", "OOD-D robust acc."])
    for at in range(20):
      x = 40 + 1.5 * at
      y = 0.7 * x - 5 + rng.normal() - (25 if at == 7 else 0)
      writer.writerow([at + 1, f"m{at}", LABELS[at % 2], 100 * at + 5, 80 + at / 2, f"{x:.2f}%", f"{y:.2f}%"])
  return path


@pytest.fixture(scope="module")
def root(tmp_path_factory):
  """The same sort of zoo as cells."""
  folder = tmp_path_factory.mktemp("trends") / "results"
  rng = np.random.default_rng(0)
  for at in range(10):
    level = 0.4 + 0.03 * at
    shifted = 0.7 * level - 0.05 + 0.01 * rng.normal()
    for condition, value in (("clean", level), ("fog-1-t32", shifted)):
      cell = Cell(model=f"m{at}", data="digits", condition=condition, attack="linf-mm5", eps="8/255", n=200)
      about = {"technique": LABELS[at % 2], "params": 10 * at}
      summary = {"robust_accuracy": value}
      save_result(folder, Result(cell=cell, config={}, summary=summary, examples={}, provenance={"model": about}))
  return folder


def lines(*words):
  code, out, err = call("trends", *words, "--json", "--draws=200")
  assert code == 0, err
  return [json.loads(line) for line in out.splitlines()], err


def test_a_table_and_the_same_as_json(board):
  code, out, err = call("trends", board, "--draws=200")
  assert code == 0 and not err and "20 models of board.csv" in out and "Rob-Rob" in out
  rows, _ = lines(board, "--date=2024-01-01")
  assert [row["kind"] for row in rows] == ["Rob-Rob", "Acc-Rob"] and rows[0]["date"] == "2024-01-01"
  assert rows[0]["slope_low"] < rows[0]["slope"] < rows[0]["slope_high"] and f"{rows[0]['slope']:.4f} [" in out
  assert rows[0]["n"] == 20 and rows[0]["limit"] is not None and rows[1]["limit"] is None


def test_filters_groups_scales_and_columns(board):
  rows, err = lines(board, "--filter", "rob>=45,technique=trades", "--scale=probit")
  assert rows[0]["n"] == 8 and rows[0]["scale"] == "probit" and rows[0]["filter"] == "rob>=45, technique=trades"
  assert rows[0]["limit"] is None and not err
  # Half a point per point would be a slope of one half here; on the probit scale it depends on where one stands.
  assert 0.5 < rows[0]["conversion"] < 0.9 and rows[0]["conversion"] != rows[0]["slope"]
  assert "conversion" in call("trends", board, "--scale=probit", "--draws=20")[1]
  rows, _ = lines(board, "--group", "technique", "--x", "params", "--y", "OOD_d robustness", "--top", "10000")
  assert [row["group"] for row in rows] == ["", "pgd-at", "trades"] and rows[0]["x"] == "params"
  # Parameters have no limit and lose no points, and each model its distance.
  assert all(row["limit"] is None for row in rows)
  words = ("--x", "params", "--y", "OOD_d robustness")
  assert all(row["OOD_d robustness"] is not None for row in lines(board, *words, "--show=effective")[0])
  assert lines(board, *words, "--show=degradation")[0] == []
  billions = board.with_name("billions.csv")
  billions.write_text("model,params,robust\n" + "".join(f"m{at},{at}e8,{40 + at}\n" for at in range(1, 9)))
  assert "0.00000001000 [" in call("trends", billions, "--x=params", "--y=robust")[1]
  refused(2, "params ranges from 1e+08 to 8e+08", "trends", billions, "--x=params", "--y=robust", "--scale=probit")


@pytest.mark.parametrize(
  ("show", "count"),
  [("effective", 20), ("degradation", 1), ("catastrophic", 1), ("ranks", 20), ("held-out", 4), ("correlations", 6)],
)
def test_every_table_is_shown(board, show, count):
  words = [board, f"--show={show}", "--group=technique"]
  rows, _ = lines(*words)
  assert len(rows) == count
  code, out, _ = call("trends", *words, "--draws=50")
  assert code == 0 and "20 models" in " ".join(out.split())
  assert ("m7" in out) == (show in ("effective", "catastrophic", "ranks"))
  if show == "catastrophic":
    assert rows[0]["model"] == "m7" and rows[0]["drop"] > rows[0]["median"] + 10
  if show == "ranks":
    assert rows[0]["model"] == "m7" and rows[0]["gain"] < 0 and "Kendall's τ" in out
  if show == "effective":
    assert min(rows, key=lambda row: row["OOD_d robustness"])["model"] == "m7"
    published, _ = lines(*words, "--line=cifar10-linf")
    assert published[0]["OOD_d robustness"] != rows[0]["OOD_d robustness"]


def test_fractions_are_the_same_as_percentages(board, tmp_path):
  head, *rows = csv.reader(board.open())
  share = lambda row: [*row[:4], *(str(float(value.removesuffix("%")) / 100) for value in row[4:])]
  path = tmp_path / "shares.csv"
  path.write_text("\n".join(",".join(row) for row in (head, *map(share, rows))))
  for show in ("trends", "effective", "degradation", "catastrophic", "held-out"):
    words = (f"--show={show}", "--group=technique")
    for one, other in zip(lines(board, *words)[0], lines(path, *words, "--top=1")[0], strict=True):
      assert {**one, "zoo": "", "date": ""} == pytest.approx({**other, "zoo": "", "date": ""})
  words = ("--x=ID accuracy", "--y=params")
  assert lines(path, *words, "--top=1")[0][0]["slope"] == pytest.approx(lines(board, *words)[0][0]["slope"])


def test_a_results_folder(root):
  rows, err = lines("--root", root)
  assert [row["y"] for row in rows] == ["fog robustness", "R_c[1 of 75] robustness"] and not err
  assert abs(rows[0]["slope"] - 0.7) < 0.1 and "digits, linf-mm5@8/255" in rows[0]["zoo"]
  rows, _ = lines("--root", root, "--group=technique", "--suite=oodrb", "--data=digits", "--attack=linf-mm5*")
  assert {row["group"] for row in rows} == {"", "pgd-at", "trades"}
  rows, _ = lines("--root", root, "--show=correlations", "--correlate=kendall", "--x=params", "--y=ID robustness")
  assert len(rows) == 1 and rows[0]["value"] == pytest.approx(1) and rows[0]["kind"] == "kendall"


def test_two_tables_of_the_same_models(board, tmp_path):
  other = tmp_path / "other.csv"
  other.write_text("title,model,ID accuracy,ID robustness\nx,M3,81.52,44.3\nx,m4,99,1\nx,m5,82.5,47.0\n")
  rows, _ = lines(board, "--show=gap", "--beside", other)
  assert [(row["model"], round(row["gap"], 2)) for row in rows] == [("m5", 0.5), ("m3", 0.2)]
  text = " ".join(call("trends", board, "--show=gap", "--beside", other, "--out", tmp_path, "--plots=no")[1].split())
  assert (tmp_path / "gap.tex").is_file() and (tmp_path / "trends.tex").is_file()
  assert "mean 0.350" in text and "sd 0.150" in text and "2 of 3 models of other.csv" in text


def test_estimates_without_labels_from_cells(tmp_path):
  for one in zoo_cells():
    save_result(tmp_path, one)
  rows, _ = lines("--root", tmp_path, "--show=without-labels", "--scale=probit", "--filter=acc>0")
  assert len(rows) == 1 and rows[0]["shift"] == "fog" and rows[0]["aline-s"] < rows[0]["OOD = ID"]
  assert "raw scale: 6 models" in " ".join(call("trends", "--root", tmp_path, "--show=without-labels")[1].split())


def test_files_of_tables_and_plots(board, tmp_path):
  pytest.importorskip("matplotlib")
  code, _, err = call("trends", board, "--out", tmp_path, "--group=technique", "--draws=50")
  assert code == 0 and err == f"24 tables and 4 plots in {tmp_path}\n"
  names = {path.name for path in tmp_path.iterdir()}
  for stem in ("trends", "effective", "degradation", "catastrophic", "ranks", "held-out", "correlations", "zoo"):
    assert {f"{stem}.md", f"{stem}.csv", f"{stem}.tex"} <= names
  for stem in ("trend-ID_robustness-OOD_d_robustness", "degradation", "correlations"):
    assert {f"{stem}.png", f"{stem}.svg", f"{stem}.pdf"} <= names
  rows = list(csv.DictReader((tmp_path / "trends.csv").open()))
  assert len(rows) == 6 and float(rows[0]["slope"]) == lines(board)[0][0]["slope"]
  again, once = lines(tmp_path / "zoo.csv")[0], lines(board)[0]
  assert [row["slope_low"] for row in again] == [row["slope_low"] for row in once]
  before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
  assert call("trends", board, "--out", tmp_path, "--group=technique", "--draws=50")[0] == 0
  assert before == {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}


def test_without_matplotlib_there_are_tables(board, tmp_path, monkeypatch):
  monkeypatch.setitem(sys.modules, "matplotlib", None)
  monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
  code, _, err = call("trends", board, "--out", tmp_path, "--draws=50", "--plots=no")
  assert code == 0 and "21 tables and 0 plots" in err
  refused_line = call("trends", board, "--out", tmp_path, "--draws=50", "--plots=yes")[2]
  assert "pip install 'jaxrobust[report]'" in refused_line and refused_line.count("\n") == 1


@pytest.mark.parametrize(
  ("code", "reason", "words"),
  [
    (2, "say which models: jaxrobust trends FILE.csv", []),
    (2, "say which models: jaxrobust trends FILE.csv", ["{board}", "--root=x"]),
    (2, "unexpected argument 'b.csv'", ["a.csv", "b.csv"]),
    (3, "cannot read {tmp}/no.csv: no such file", ["{tmp}/no.csv"]),
    (3, "cannot read results from {tmp}/none: no such folder", ["--root={tmp}/none"]),
    (2, "unknown value of --show 'trend'; did you mean 'trends'", ["{board}", "--show=trend"]),
    (2, "unknown value of --suite 'ares'", ["{board}", "--suite=ares"]),
    (2, "unknown scale 'log'", ["{board}", "--scale=log"]),
    (2, "unknown label 'techniqe'; did you mean 'technique'", ["{board}", "--group=techniqe"]),
    (2, "held-out predicts each group", ["{board}", "--show=held-out"]),
    (2, "without-labels needs predictions", ["{board}", "--show=without-labels"]),
    (2, "a gap is between two tables", ["{board}", "--show=gap"]),
    (2, "a gap is between two tables", ["{board}", "--beside={board}"]),
    (2, "a trend of OOD_d robustness over ID robustness needs at least 3 models", ["{board}", "--filter=rob>=67"]),
    (2, "leaves none of 20 models", ["{board}", "--filter=rob>=99"]),
    (2, "draws must be at least 1", ["{board}", "--draws=0"]),
    (2, "top must be more than 0", ["{board}", "--top=0"]),
    (2, "not within 0 and 1; see --top", ["{board}", "--top=1"]),
    (2, "unknown correlation 'spearman'", ["{board}", "--show=correlations", "--correlate=spearman"]),
    (2, "unknown published line 'cifar10'", ["{board}", "--show=effective", "--line=cifar10"]),
    (2, "say both columns of a trend", ["{board}", "--x=params"]),
    (2, "ID robustness is 50 for all 3 models: a constant axis has no trend", ["{constant}"]),
    (2, "at least 3 models with both, got 2", ["{two}"]),
  ],
)
def test_what_cannot_be_done_is_said_in_one_line(code, reason, words, board, tmp_path):
  head = "model,ID robustness,fog robustness\n"
  (tmp_path / "constant.csv").write_text(head + "a,50,1\nb,50,2\nc,50,3\n")
  (tmp_path / "two.csv").write_text(head + "a,50,1\nb,60,2\nc,55,-\n")
  names = {"board": board, "tmp": tmp_path, "constant": tmp_path / "constant.csv", "two": tmp_path / "two.csv"}
  refused(code, reason.format(**names), "trends", *(word.format(**names) for word in words))


def test_tables_that_need_no_line_are_shown_of_two_models_too(tmp_path):
  path = tmp_path / "two.csv"
  path.write_text("model,technique,ID accuracy,fog accuracy\na,x,50,40\nb,y,60,55\n")
  for show in ("zoo", "ranks", "degradation", "catastrophic", "correlations"):
    code, out, err = call("trends", path, f"--show={show}")
    assert code == 0 and not err and "two.csv" in out
  refused(2, "at least 3 models", "trends", path)


def test_held_out_says_nothing_of_lines_it_does_not_need(tmp_path):
  path = tmp_path / "groups.csv"
  rows = "".join(f"m{at},t{at // 2},{40 + at},{30 + at + at % 2}\n" for at in range(8))
  path.write_text(f"model,technique,ID accuracy,fog accuracy\n{rows}")
  code, out, err = call("trends", path, "--show=held-out", "--group=technique")
  assert code == 0 and not err and "t3" in out
  code, _, err = call("trends", path, "--group=technique")
  assert code == 0 and "technique t0, t1, t2, t3: fewer than 3 models each" in err and err.count("\n") == 1


def test_tables_of_many_shifts_show_their_means_and_write_all(tmp_path):
  path, rng = tmp_path / "wide.csv", np.random.default_rng(0)
  here = rng.uniform(40, 70, 12)
  shifts = [*(f"a-rather-long-name-of-shift-{at} robustness" for at in range(40)), "R_c robustness"]
  rows = [f"m{at}," + ",".join(f"{here[at] - k / 2 - rng.random():.3f}" for k in range(42)) for at in range(12)]
  path.write_text("\n".join([",".join(["model", "ID robustness", *shifts]), *rows]))
  code, out, _ = call("trends", path, "--show=effective")
  assert code == 0 and "R_c robustness" in out and "a-rather" not in out
  assert set(lines(path, "--show=effective")[0][0]) == {"model", *shifts}
  # Without means all are shown, however wide that is: no name is cut or folded.
  path.write_text(path.read_text().replace("R_c robustness", "snow robustness"))
  heads = call("trends", path, "--show=effective")[1].splitlines()[2:5]
  assert any(all(name in line for name in [*shifts[:-1], "snow robustness"]) for line in heads)


def test_a_pair_of_two_kinds_has_tables_without_limits_and_drops(board, tmp_path):
  words = ("--x=ID accuracy", "--y=OOD_d robustness", "--draws=50")
  code, out, _ = call("trends", board, *words)
  assert code == 0 and "Acc-Rob" in out
  code, out, _ = call("trends", board, *words, "--show=effective")
  assert code == 0 and out.rstrip().endswith(": none")
  assert call("trends", board, *words, "--out", tmp_path, "--plots=no")[0] == 0


def test_a_published_line_that_is_none_is_refused_wherever(board):
  refused(2, "cifar10-linf", "trends", board, "--line=cifar100")
