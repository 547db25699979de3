"""Numbers of the page and the tables equal the cells, counted here in another way."""

import csv
import io
import json
import re

import numpy as np
import pytest

from jaxrobust.core.budget import Budget
from jaxrobust.core.errors import InputError
from jaxrobust.evaluation.metrics.proportions import proportion
from jaxrobust.report.boards import make_boards
from jaxrobust.report.cell_rows import make_cell_row, read_cell_rows
from jaxrobust.report.documents import as_script, budget_curves, held_at, model_id, transfer_maps
from jaxrobust.report.gap_plots import find_gaps
from jaxrobust.report.pictures import amplify, read_pictures
from jaxrobust.report.report import write_report
from jaxrobust.report.site import write_if_new
from jaxrobust.results import Cell, Result, save_result
from jaxrobust.results.folder import open_folder
from jaxrobust.results.packing import unpack
from tests.report.synthetic import result, write_model, write_shift

NAMES = ["a", "b", "<b>bold</b>", "$x$|`y`"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
  root = tmp_path_factory.mktemp("report")
  for at, name in enumerate(NAMES):
    write_model(root / "results", name, at)
  write_shift(root / "results", "a", 0)
  return root, write_report(root / "results", root / "site")


def script(path):
  """The value a script of the page holds, without the page."""
  text = path.read_text()
  values = json.loads(f"[{re.fullmatch(r'JR[.][a-z]+[(](.*)[)];', text.strip(), re.DOTALL)[1]}]")
  return values[-1]


def raw_cells(root):
  """All cells, read without any of our readers but the unpacking of arrays."""
  found = {}
  for path in root.rglob("*.seed0.json"):
    document = json.loads(path.read_text())
    cell = document["cell"]
    key = (cell["model"], cell["data"], cell["condition"], cell["attack"], cell["eps"])
    found[key] = {name: unpack(value) for name, value in document["examples"].items()}
  return found


def recomputed(cells, model, data, norm, eps, column):
  """One entry of a board, from the flags alone."""
  attacks = {}
  for (name, where, condition, attack, budget), arrays in cells.items():
    if (name, where, condition) == (model, data, "clean") and attack.startswith(f"{norm}-"):
      if budget == eps:
        attacks[attack] = arrays["robust"]
      elif budget is None:
        limit = float(eval(eps))
        attacks[attack] = np.array(
          [c and d > limit for c, d in zip(arrays["correct"], arrays["distance"], strict=True)]
        )
  if column == "worst":
    return np.mean([all(flags[i] for flags in attacks.values()) for i in range(len(next(iter(attacks.values()))))])
  if column == "clean":
    return cells[model, data, "clean", "none", None]["robust"].mean()
  if column == "corruptions":
    seen = [
      a["robust"].mean()
      for (m, d, c, attack, _), a in cells.items()
      if (m, d, attack) == (model, data, "none") and c != "clean"
    ]
    return np.mean(seen)
  return attacks[column].mean()


def test_every_entry_of_every_board_equals_its_cells(site):
  root, written = site
  cells = raw_cells(root / "results")
  index = script(root / "site" / "data" / "index.js")
  checked = 0
  for board in index["boards"]:
    for row in board["rows"]:
      model = index["models"][row[0]]["name"]
      for column, number in zip(board["columns"], row[1:], strict=True):
        wanted = recomputed(cells, model, board["data"], board["norm"], board["eps"], column["key"])
        assert number[0] == pytest.approx(100 * wanted, abs=1e-3), (board["data"], model, column["key"])
        assert number[1] <= number[0] <= number[2]
        checked += 1
  assert checked == 2 * 4 * 7 + 3 and written.boards == 3 and written.models == 4


def test_the_files_behind_a_number_are_named(site):
  root, _ = site
  index = script(root / "site" / "data" / "index.js")
  for model in index["models"]:
    document = script(root / "site" / "data" / "models" / f"{model['id']}.js")
    for key, columns in document["boards"].items():
      board = index["boards"][int(key)]
      row = next(row for row in board["rows"] if index["models"][row[0]]["id"] == model["id"])
      assert [bool(paths) for paths in columns] == [number is not None for number in row[1:]]
      for paths in columns:
        assert all((root / "results" / path).is_file() for path in paths)
    cells = raw_cells(root / "results")
    for cell in document["cells"]:
      flags = cells[model["name"], cell["data"], cell["condition"], cell["attack"], cell["eps"]]["robust"]
      assert cell["number"][0] == pytest.approx(100 * flags.mean(), abs=1e-3) and cell["number"][3] == len(flags)
      assert cell["command"] is None and (root / "results" / cell["path"]).is_file()


def test_curves_equal_the_cells(site):
  root, _ = site
  cells = raw_cells(root / "results")
  document = script(root / "site" / "data" / "models" / f"{model_id('a')}.js")
  kinds = {(curve["kind"], curve["attack"]) for curve in document["curves"] if curve["data"] == "digits"}
  assert ("budget", "linf-fab-100") in kinds and ("budget", "linf-pgd-20") in kinds
  assert ("strength", "linf-pgd-20@8/255") in kinds
  for curve in document["curves"]:
    if curve["data"] != "digits":
      continue
    if curve["kind"] == "strength":
      attack, eps = curve["attack"].split("@")
      arrays = cells["a", "digits", "clean", attack, eps]
      right = lambda x, a=arrays: a["correct"] & ((a["broken_at"] < 0) | (a["broken_at"] > x))
    elif curve["attack"] == "linf-fab-100":
      arrays = cells["a", "digits", "clean", "linf-fab-100", None]
      # Points lie at distances themselves, where one rounding decides: a little beyond them it does not.
      right = lambda x, a=arrays: a["correct"] & (a["distance"] > x + 2e-6)
    else:
      continue
    for x, y in curve["points"]:
      assert y == pytest.approx(100 * right(x).mean(), abs=100 / 40 + 0.01 if curve["kind"] == "budget" else 0.01)


def test_tables_say_the_same(site):
  root, _ = site
  tables = root / "site" / "tables"
  assert sorted(path.name for path in tables.iterdir() if path.suffix == ".csv") == [
    "digits-linf-4_255.csv", "digits-linf-8_255.csv", "digits-v2-l2-0.5.csv",
  ]  # fmt: skip
  cells = raw_cells(root / "results")
  rows = list(csv.DictReader(io.StringIO((tables / "digits-linf-8_255.csv").read_text())))
  assert {row["rank"] for row in rows} <= set("1234")
  for row in rows:
    wanted = recomputed(cells, row["model"], "digits", "linf", "8/255", row["column"])
    assert float(row["accuracy"]) == pytest.approx(wanted) and float(row["low"]) <= wanted <= float(row["high"])
  markdown = (tables / "digits-linf-8_255.md").read_text()
  worst = recomputed(cells, "b", "digits", "linf", "8/255", "worst")
  assert re.search(rf"^\| [1-4] \| b \| {100 * worst:.1f} \|", markdown, re.MULTILINE)
  assert "<b>" not in markdown and r"\$x\$\|\`y\`" in markdown
  latex = (tables / "digits-linf-8_255.tex").read_text()
  assert r"\textless{}b\textgreater{}bold" in latex and r"\$x\$|`y`" in latex and latex.count(r"\\") == 5


def test_an_unchanged_report_changes_no_file(site):
  root, _ = site
  state = lambda: {path: path.stat().st_mtime_ns for path in (root / "site").rglob("*") if path.is_file()}
  before = state()
  write_report(root / "results", root / "site")
  assert state() == before


def test_models_that_are_gone_leave_the_page(tmp_path):
  for at, name in enumerate("ab"):
    write_model(tmp_path / "results", name, at, rich=False)
  write_report(tmp_path / "results", tmp_path / "site")
  for path in (tmp_path / "results" / "b").rglob("*.json"):
    path.unlink()
  write_report(tmp_path / "results", tmp_path / "site")
  assert [path.stem for path in (tmp_path / "site" / "data" / "models").iterdir()] == [model_id("a")]


def test_of_like_cells_the_largest_counts(tmp_path):
  flags = lambda n, k: {"correct": np.ones(n, bool), "robust": np.arange(n) < k}
  for n, k, seed in ((10, 10, 0), (20, 5, 1), (20, 7, 2)):
    cell = Cell(model="m", data="d", attack="linf-pgd-20", eps="8/255", n=n, seed=seed)
    save_result(tmp_path, result(cell, flags(n, k)))
  (board,) = make_boards(read_cell_rows(open_folder(tmp_path)).rows)
  assert board.rows["m"][0].value == 5 / 20


def test_the_worst_case_is_over_the_examples_all_attacks_share(tmp_path):
  robust = {"linf-pgd-20": np.array([1, 1, 0, 1], bool), "linf-autoattack": np.array([1, 0, 1], bool)}
  for attack, flags in robust.items():
    cell = Cell(model="m", data="d", attack=attack, eps="8/255", n=len(flags))
    save_result(tmp_path, result(cell, {"correct": np.ones(len(flags), bool), "robust": flags}))
  (board,) = make_boards(read_cell_rows(open_folder(tmp_path)).rows)
  assert (board.rows["m"][0].value, board.rows["m"][0].n) == (1 / 3, 3)


def test_the_interval_over_corruptions_is_over_images(tmp_path):
  flags = np.arange(100) % 2 == 0
  for severity in range(1, 6):
    cell = Cell(model="m", data="d", condition=f"fog-{severity}", attack="none", n=100)
    save_result(tmp_path, result(cell, {"correct": flags, "robust": flags}))
  (board,) = make_boards(read_cell_rows(open_folder(tmp_path)).rows)
  (number,) = (number for number in board.rows["m"] if number is not None)
  assert number == pytest.approx(proportion(flags))
  published = Cell(model="m", data="d", condition="snow-1", attack="none", n=50)
  save_result(tmp_path, Result(cell=published, config={}, summary={"robust_accuracy": 0.5}, examples={}))
  (board,) = make_boards(read_cell_rows(open_folder(tmp_path)).rows)
  (number,) = (number for number in board.rows["m"] if number is not None)
  assert number == pytest.approx(proportion(flags[:50]))


def test_a_folder_without_cells_gives_a_page_that_says_so(tmp_path):
  (tmp_path / "results").mkdir()
  written = write_report(tmp_path / "results", tmp_path / "site")
  assert written.page.is_file() and written.models == 0
  assert script(tmp_path / "site" / "data" / "index.js")["boards"] == []


def test_several_folders_on_one_page(tmp_path):
  write_model(tmp_path / "one", "a", 0)
  write_model(tmp_path / "deep" / "two", "b", 1)
  out = tmp_path / "elsewhere" / "site"
  assert write_report(tmp_path / "one", out, also=[tmp_path / "deep" / "two"]).models == 2
  index = script(out / "data" / "index.js")
  for name in "ab":
    document = script(out / "data" / "models" / f"{model_id(name)}.js")
    paths = [
      out / index["root"] / path for columns in document["boards"].values() for files in columns for path in files
    ]
    assert paths and all(path.is_file() for path in paths) and len(document["pictures"]) == 2
  with pytest.raises(InputError, match="only folders on this machine"):
    write_report(tmp_path / "one", out, also=["memory://two"])


def test_results_in_object_storage(tmp_path):
  fsspec = pytest.importorskip("fsspec")
  write_model(tmp_path / "results", "a", 0)
  memory = fsspec.filesystem("memory")
  memory.put(str(tmp_path / "results"), "/bucket/results", recursive=True)
  try:
    written = write_report("memory://bucket/results", tmp_path / "site")
    local = write_report(tmp_path / "results", tmp_path / "local")
    assert (written.models, written.cells) == (local.models, local.cells)
    documents = [tmp_path / name / "data" / "models" / f"{model_id('a')}.js" for name in ("site", "local")]
    assert documents[0].read_bytes() == documents[1].read_bytes()
    assert script(tmp_path / "site" / "data" / "index.js")["root"] == "memory://bucket/results/"
  finally:
    memory.rm("/bucket", recursive=True)


def test_pictures_show_the_change_and_damage_costs_only_them(tmp_path):
  write_model(tmp_path, "a", 0)
  folder = open_folder(tmp_path)
  (path,) = (file for file in folder.files() if file.path.endswith(".images.npz"))
  pictures = read_pictures(folder, path.path, path.size)
  assert len(pictures) == 2 and pictures[0]["factor"] == 15 and pictures[0]["prediction"] == 5
  assert all(pictures[0][kind].startswith("data:image/png;base64,") for kind in ("clean", "adversarial", "difference"))
  whole = (tmp_path / path.path).read_bytes()
  for size in (0, 10, len(whole) // 2):
    (tmp_path / path.path).write_bytes(whole[:size])
    assert read_pictures(folder, path.path, size) == []
  np.savez(
    tmp_path / path.path, clean=np.zeros((1, 2, 2, 3)), adversarial=np.zeros((1, 2, 2, 3)), label=[0], prediction=[1]
  )
  assert read_pictures(folder, path.path, 100) == []
  same = np.full((1, 1, 3), 9, np.uint8)
  assert amplify(same, same)[1] == 127


def transferred(sources, targets, n=8, attack="linf-fgsm", **more):
  """Rows of transfer cells, by target."""
  flags = {"correct": np.arange(n) < n - 2, "robust": np.arange(n) < n // 2, **more}
  name = lambda source: f"transfer:{source}:{attack}"
  cell = lambda source, target: Cell(model=target, data="digits", attack=name(source), eps="8/255", n=n)
  return {b: [make_cell_row("x", result(cell(a, b), flags)) for a in sources] for b in targets}


def test_transfer_maps_are_whole_and_of_networks_that_met():
  names = [f"net{at:02d}" for at in range(49)]
  (whole,) = transfer_maps(transferred(names, names))  # RobustART's figure 3.
  assert np.shape(whole["success"]) == (49, 49) and whole["sources"] == names and whole["n"] == 8
  assert set(np.ravel(whole["success"])) == {33.3333} and set(np.ravel(whole["values"])) == {50}
  # ARES-Bench's figures 7 and 8: one map of networks trained normally, one of those trained adversarially.
  apart = transfer_maps({**transferred(["a", "c"], ["a", "b", "c"]), **transferred(["x-at"], ["x-at", "y-at"])})
  assert [(item["sources"], len(item["targets"])) for item in apart] == [(["a", "c"], 3), (["x-at"], 2)]
  assert len(transfer_maps({**transferred("a", "b", n=8), **transferred("a", "c", n=16)})) == 2
  # RobustART's script: of what the source has right too.
  (counted,) = transfer_maps(transferred("a", "b", source_correct=np.arange(8) > 0))
  assert counted["both"] == [[100 * 2 / 5]] and whole["both"][0][0] is None
  # Targeted images: of all examples, if a cell says whether the target was reached.
  goal = {"attack": "linf-bim-10,targeted", "reached": np.arange(8) < 2}
  assert transfer_maps(transferred("a", "b", **goal))[0]["success"] == [[25]]
  assert transfer_maps(transferred("a", "b", attack=goal["attack"]))[0]["success"] == [[None]]


def test_a_map_of_49_networks_is_drawn_whole():
  plots = pytest.importorskip("jaxrobust.report.plots")
  pytest.importorskip("matplotlib", reason="pip install 'jaxrobust[report]'")
  names = [f"net{at:02d}" for at in range(49)]
  models = transferred(names, names)
  with plots.plotting() as plt:
    figure = plots._transfer(plt, (transfer_maps(models)[0], models, "success"))
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_xticklabels()] == names and len(axes.texts) == 49 * 49
    plt.close(figure)


def test_no_text_can_leave_its_script(tmp_path):
  text = as_script("f", "</script><!--\u2028\ud800")
  assert "<" not in text and text.isascii()
  write_if_new(tmp_path / "x", text)
  assert (tmp_path / "x").read_text() == text


def test_plots_are_drawn_in_three_formats(tmp_path):
  pytest.importorskip("matplotlib")
  for at, name in enumerate(["a", "$\\frac{<&\x00"]):
    write_model(tmp_path / "results", name, at, attacks=["linf-pgd-20"], budgets=["8/255"])
  written = write_report(tmp_path / "results", tmp_path / "site", plots=True)
  files = sorted((tmp_path / "site" / "plots").iterdir())
  assert written.plots == 6 and len(files) == 18
  kinds = {path.name.split("-")[0] for path in files}
  assert kinds == {"bars", "scatter", "curves", "transfer", "success", "corruptions"}
  signatures = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}
  assert all(path.read_bytes().startswith(signatures[path.suffix]) for path in files)


def test_a_plot_shades_what_is_neither_proved_nor_broken(tmp_path):
  pytest.importorskip("matplotlib")
  right, radius = np.arange(20) < 18, np.linspace(0.03, 0.001, 20, dtype=np.float32)
  far, near = (np.where(right, np.linspace(top, 0.03, 20), 0).astype(np.float32) for top in (0.1, 0.05))
  cells = {
    ("linf-certified-crown", "2/255"): {"robust": right & (radius > 2 / 255), "certified_radius": radius},
    ("linf-fab-100", None): {"robust": np.zeros(20, bool), "distance": far},
    ("linf-deepfool-50", None): {"robust": np.zeros(20, bool), "distance": near},
  }
  for name, attacks in (("both", list(cells)), ("attacked", list(cells)[1:])):
    for attack, eps in attacks:
      cell = Cell(model=name, data="digits", condition="clean", attack=attack, eps=eps, n=20)
      save_result(tmp_path / "results", result(cell, {"correct": right, **cells[attack, eps]}))
  write_report(tmp_path / "results", tmp_path / "site", plots=True)
  assert (tmp_path / "site" / "plots" / "gap-digits-linf.png").is_file()
  (gaps,) = find_gaps(read_cell_rows(open_folder(tmp_path / "results")).by_model()).values()
  assert list(gaps) == ["both"]
  gap = gaps["both"]
  assert (gap.proved <= gap.attacked).all() and gap.proved[0] == gap.attacked[0] == 90
  for budget in (0.0123, 0.0255, 0.035):
    held = gap.proved[np.searchsorted(gap.budgets, budget)]
    assert held == pytest.approx(100 * (right & (radius >= budget)).mean())
  # Of two attacks the stronger one counts.
  assert np.interp(0.04, gap.budgets, gap.attacked) == pytest.approx(100 * (near > 0.04).mean(), abs=5)


def test_what_was_certified_before_attacks_is_one_curve(tmp_path):
  right = np.arange(10) < 9
  for budget, proved in (("1/255", 6), ("2/255", 4), ("4/255", 0)):
    radius = np.where(np.arange(10) < proved, Budget.parse(budget).value, 0).astype(np.float32)
    for attack, more in (
      ("linf-pgd-20", {"certified_radius": radius}),
      ("oblivious:images:linf-bim-20", {"certified_radius": radius + 9}),
    ):
      cell = Cell(model="net", data="digits", condition="clean", attack=attack, eps=budget, n=10)
      save_result(tmp_path, result(cell, {"correct": right, "robust": right, **more}))
  rows = read_cell_rows(open_folder(tmp_path)).rows
  proved, attacked = budget_curves(rows)
  assert proved["attack"] == "linf-certified-first" and proved["proved"] and "proved" not in attacked
  budgets, shares = np.transpose(proved["points"])
  asked = np.array([0.5, 1, 1.5, 2, 3]) / 255
  assert held_at(budgets, shares, asked - 1e-6).tolist() == [60, 60, 40, 40, 0]


def test_a_shared_link_has_a_picture_and_its_address(tmp_path):
  from PIL import Image

  write_model(tmp_path / "results", "$x$ <b>", 0, rich=False)
  page = write_report(tmp_path / "results", tmp_path / "site", url="https://a.b").page
  assert "og:title" in page.read_text() and "card" not in page.read_text()  # No picture, no link to one.
  page = write_report(tmp_path / "results", tmp_path / "site", plots=True, url='https://a.b/"c"/').page
  assert Image.open(tmp_path / "site" / "card.png").size == (1200, 630)
  assert '<meta property="og:image" content="https://a.b/&quot;c&quot;/card.png">' in page.read_text()
