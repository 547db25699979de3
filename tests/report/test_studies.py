"""Studies on the page and as tables: the numbers are those of the cells, counted here in another way."""

import csv
import io
import json
import time

import numpy as np
import pytest

from jaxrobust.evaluation.studies.evaluator import EvalSpec
from jaxrobust.evaluation.studies.rows import save_index
from jaxrobust.report.report import write_report
from jaxrobust.results import Cell, save_result
from tests.report.synthetic import result

pytestmark = pytest.mark.smoke

HOSTILE = '<img src=x onerror="window.hit=1">|&_'
# Group, opponent and right answers out of 20 of each run: clean, PGD-20, MM5, fog.
GROUPS = {
  "plain": ("", [(18, 10, 8, 15), (20, 12, 10, 17)]),
  HOSTILE: ("plain", [(17, 16, 16, 14), (19, 18, 16, 12)]),
  "single": ("plain", [(20, 20, 20, 20)]),
  "missing": ("plain", []),
}
CELLS = (
  ("clean", "none", None),
  ("clean", "linf-pgd-20", "8/255"),
  ("clean", "linf-mm5", "8/255"),
  ("fog-1", "none", None),
)

# Cells of suites that none of these numbers is about.
OTHERS = (
  ("clean", "linf-mm5", "12/255"),
  ("clean", "stadv-100", "0.05"),
  ("fog-1", "linf-mm5", "8/255"),
  ("cutoff-8", "none", None),
)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
  out = tmp_path_factory.mktemp("study")
  runs = []
  for group, (against, counts) in GROUPS.items():
    for seed, numbers in enumerate(counts or [None]):
      name = f"{len(runs)}-s{seed}"
      runs.append({"name": name, "group": group, "against": against, "judged": True})
      for (condition, attack, eps), right in zip(CELLS, numbers or (), strict=False):
        flags = np.arange(20) < right
        cell = Cell(model=name, data="digits", condition=condition, attack=attack, eps=eps, n=20)
        save_result(out / "results", result(cell, {"correct": flags, "robust": flags}))
      for condition, attack, eps in OTHERS if numbers else ():
        cell = Cell(model=name, data="digits", condition=condition, attack=attack, eps=eps, n=20)
        save_result(out / "results", result(cell, dict.fromkeys(("correct", "robust"), np.arange(20) < 1)))
      log = [{"step": 4 * epoch, "epoch": epoch, "clean": 0.5, "robust": epoch / 10 + seed / 5} for epoch in (1, 2)]
      (out / "models" / name).mkdir(parents=True)
      (out / "models" / name / "train.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in log))
  save_index(out, "small", EvalSpec(corruptions=("fog",), severities=(1,)), runs)
  return out


@pytest.fixture(scope="module")
def site(study):
  return write_report(study, study / "site").page


def expected(group, at):
  """Mean, deviation and gain of a metric in percent."""
  values = lambda name: np.array([5.0 * run[at] for run in GROUPS[name][1]])
  own, other = values(group), values("plain")
  return own.mean(), own.std(ddof=1) if len(own) > 1 else None, own.mean() - other.mean() if group != "plain" else None


def test_tables_in_three_formats_say_what_the_cells_say(site):
  folder = site.parent / "tables"
  lines = list(csv.DictReader(io.StringIO((folder / "study-small.csv").read_text())))
  assert len(lines) == 3 * 4 and {line["technique"] for line in lines} == {*GROUPS} - {"missing"}
  for line in lines:
    at = ["clean", "pgd-20", "mm5", "corruptions"].index(line["metric"])
    mean, deviation, gain = expected(line["technique"], at)
    assert 100 * float(line["mean"]) == pytest.approx(mean)
    assert (100 * float(line["deviation"]) if line["deviation"] else None) == pytest.approx(deviation)
    assert (100 * float(line["gain"]) if line["gain"] else None) == pytest.approx(gain)
  markdown = (folder / "study-small.md").read_text()
  assert "| single | plain | 1 | 100.0 (+5.0) | 100.0 (+45.0) | 100.0 (+55.0) | 100.0 (+20.0) | 0 |" in markdown
  assert "90.0 ± 7.1 (-5.0)" in markdown and "| missing | plain | 0 | - | - | - | - | - |" in markdown
  assert "<img" not in markdown and r"\|&amp;\_" in markdown
  latex = (folder / "study-small.tex").read_text()
  assert r"90.0 $\pm$ 7.1 ($-$5.0)" in latex and r"|\&\_" in latex and latex.count(r"\\") == 1 + len(GROUPS)


def test_the_results_folder_of_a_study_shows_it_as_well(study, tmp_path):
  write_report(study / "results", tmp_path / "site")
  assert (tmp_path / "site" / "tables" / "study-small.md").exists()


def test_accuracy_over_epochs_is_the_mean_of_the_runs(study, tmp_path):
  pytest.importorskip("matplotlib")
  assert write_report(study, tmp_path / "site", plots=True).plots >= 2
  assert (tmp_path / "site" / "plots" / "epochs-small-robust.pdf").exists()
  text = (tmp_path / "site" / "data" / "index.js").read_text()
  (document,) = json.loads(text.partition("(")[2].rpartition(")")[0])["studies"]
  curves = {one["name"]: one["points"] for one in document["epochs"]["robust"]}
  assert curves == {"plain": [[1, 20], [2, 30]], HOSTILE: [[1, 20], [2, 30]], "single": [[1, 10], [2, 20]]}


def test_a_damaged_index_is_a_finding_and_no_error(study, tmp_path):
  for at, text in enumerate(("{", "[]", '{"study": "x"}', '{"study": "x", "judging": {}, "runs": [{}]}')):
    folder = tmp_path / str(at)
    folder.mkdir()
    (folder / "study.json").write_text(text)
    written = write_report(folder, tmp_path / f"site{at}", also=[study / "results"])
    assert any("study.json" in problem for problem in written.problems) and written.cells == 40


def test_the_page_has_a_view_of_studies(browser, site):
  browser.get("about:blank")
  browser.get_log("browser")
  browser.get(site.as_uri() + "#/studies")
  end = time.monotonic() + 60
  while browser.execute_script("return document.querySelector('h1')?.textContent") != "Studies":
    assert time.monotonic() < end
    time.sleep(0.05)
  texts = lambda selector: [node.text for node in browser.find_elements("css selector", selector)]
  assert texts("#views a") == ["Leaderboard", "OOD trends", "Studies"] and texts("#views a[aria-current]") == [
    "Studies"
  ]
  rows = [[cell.text for cell in row.find_elements("css selector", "th, td")] for row in _rows(browser)]
  assert [row[0] for row in rows] == list(GROUPS)
  assert rows[1][3].split("\n") == ["90.0 ± 7.1", "−5.0"] and rows[2][4].split("\n") == ["100.0", "+45.0"]
  assert rows[3][3:7] == ["–"] * 4
  assert browser.execute_script("return window.hit") is None
  assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


def _rows(browser):
  return browser.find_elements("css selector", "table.board tbody tr")
