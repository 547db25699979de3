"""Zoos from CSV files, data frames and cells; filters, groups and what is refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from jaxrobust.analysis.correlations import pearson
from jaxrobust.analysis.filters import apply_filter
from jaxrobust.analysis.trends import column_pairs, drops, fit_trends, published_trends, rank_columns
from jaxrobust.analysis.zoo import make_zoo, read_csv, read_frame
from jaxrobust.analysis.zoo_cells import cells_zoo, last_change, read_cells
from jaxrobust.analysis.zoo_metrics import _is_there, add_metrics
from jaxrobust.core.errors import InputError, StorageError, UnknownNameError
from jaxrobust.noises.tables import BENCHMARK
from jaxrobust.report.trend_tables import as_csv, zoo_sheet
from jaxrobust.results import Cell, Result, save_result

CSV = "\ufeffmodel,technique,ID clean acc.,ID robust acc.,OOD-D robust acc.,note\n" + "".join(
  f"m{at},{'trades' if at % 2 else 'pgd-at'},{80 + at}.5%,{40 + at},{20 + at}%,\n" for at in range(12)
)


@pytest.fixture
def board(tmp_path):
  path = tmp_path / "board.csv"
  path.write_text(CSV, encoding="utf-8")
  return path


def test_a_csv_file_is_a_zoo(board):
  zoo = read_csv(board, date="2024-05-01")
  assert list(zoo.columns) == ["ID accuracy", "ID robustness", "OOD_d robustness"] and len(zoo) == 12
  assert zoo.column("id ROBUSTNESS")[:2].tolist() == [40, 41] and zoo.label("Technique")[1] == "trades"
  assert zoo.about()["date"] == "2024-05-01" and zoo.source.startswith("board.csv (sha256 ")
  assert re.fullmatch(r"file of \d{4}-\d\d-\d\d", read_csv(board).date)
  with pytest.raises(UnknownNameError, match="did you mean 'ID accuracy'"):
    zoo.column("ID accuracies")
  with pytest.raises(UnknownNameError, match="label 'arch'"):
    zoo.label("arch")


@pytest.mark.parametrize(
  ("text", "reason"),
  [
    ("", "holds no models"),
    ("a,b\n", "holds no models"),
    ("a,a\n1,2\n", "two columns called 'a'"),
    ("a,b\n1\n", "row 2 has 1 entries where the header has 2"),
  ],
)
def test_files_that_are_no_tables_are_refused_by_name(tmp_path, text, reason):
  path = tmp_path / "x.csv"
  path.write_text(text)
  with pytest.raises(InputError) as error:
    read_csv(path)
  assert reason in str(error.value) and str(path) in str(error.value) and "\n" not in str(error.value)
  path.write_bytes(b"\xff\xfe\x00a,b")
  with pytest.raises(InputError, match="is no CSV file"):
    read_csv(path)
  with pytest.raises(StorageError, match="no such file"):
    read_csv(tmp_path / "absent.csv")


def test_models_of_one_name_are_told_apart_and_gaps_are_gaps():
  zoo = make_zoo({"name": ["a", "a", "a", "b"], "Arch.": ["r", "r", "v", ""], "x": [1, None, "–", "nan"]})
  assert zoo.models == ("a, r #1", "a, r #2", "a, v", "b")
  assert np.isnan(zoo.columns["x"]).tolist() == [False, True, True, True]
  assert make_zoo({"x": [1, 2]}).models == ("#1", "#2")
  assert make_zoo({"model": ["a", "a #1", "a", "", "#1"], "x": range(5)}).models == ("a #2", "a #1", "a #3", "#2", "#1")
  assert "flag" in make_zoo({"name": ["a"], "flag": [True]}).labels
  with pytest.raises(InputError, match="columns of one length"):
    make_zoo({"a": [1], "b": [1, 2]})
  with pytest.raises(InputError, match="needs rows"):
    make_zoo({})


@pytest.mark.parametrize(
  ("one", "other"), [("fog accuracy", "Fog accuracy"), ("ID clean acc.", "ID accuracy"), ("x", " x")]
)
def test_columns_that_would_be_one_are_refused(one, other):
  with pytest.raises(InputError, match="are both read as") as caught:
    make_zoo({"model": ["a", "b"], one: [1, 2], other: [3, 4]})
  assert repr(one) in str(caught.value) and repr(other) in str(caught.value)


def test_a_column_that_one_entry_makes_text_is_named():
  zoo = make_zoo({"model": ["a", "b", "c"], "ID robust acc.": ["50", "60*", "70"], "venue": ["2024", "ICML", "CVPR"]})
  assert zoo.notes == ("ID robust acc. is read as text: '60*' of row 2 is no number",) and not zoo.columns


@pytest.mark.parametrize("odd", ["inf", "-Infinity", "1e308"])
def test_numbers_that_nothing_can_be_computed_with_are_gaps_and_said_to_be(odd):
  zoo = make_zoo({"model": list("abcd"), "params": ["1", odd, "-", "3"], "ID accuracy": [4, 5, 6, 7]})
  assert np.array_equal(zoo.columns["params"], [1, np.nan, np.nan, 3], equal_nan=True)
  assert zoo.notes == ("params: 1 of 4 numbers are infinite or above 1e+100: left out",)
  assert pearson(zoo.column("params"), zoo.column("ID accuracy")) == 1


@pytest.mark.parametrize("between", [";", "\t"])
def test_semicolons_and_tabs_separate_tables_too(board, between):
  zoo = read_csv(board)
  board.write_text(CSV.replace(",", between))
  assert read_csv(board).models == zoo.models and list(read_csv(board).columns) == list(zoo.columns)


def test_a_table_with_dates_is_as_old_as_its_newest_row(tmp_path):
  table = {"model": ["a", "b"], "date": ["2024-05-01", "2026-11-19"], "ID accuracy": [80, 70]}
  zoo = make_zoo(table)
  assert zoo.date == "2026-11-19" and make_zoo(table, date="2027-01-01").date == "2027-01-01"
  # The file of a zoo keeps them, and those of a zoo without such a column say when it was.
  (tmp_path / "zoo.csv").write_text(as_csv(zoo_sheet(zoo)))
  assert read_csv(tmp_path / "zoo.csv").label("date") == tuple(table["date"])
  del table["date"]
  (tmp_path / "zoo.csv").write_text(as_csv(zoo_sheet(make_zoo(table, date="2025-02-03"))))
  assert read_csv(tmp_path / "zoo.csv").date == "2025-02-03"


def test_names_with_commas_in_brackets_are_columns():
  name = "R_c[net.0a1b2c, 8 of 75] robustness"
  zoo = make_zoo({"model": list("abcd"), "ID robustness": [4, 5, 6, 7], name: [1, 2, 3, 5]})
  assert column_pairs(zoo, "ID robustness", f"{name},ID robustness")[0][2] == name
  assert apply_filter(zoo, f"{name}>1, rob<7").models == ("b", "c")


def test_fractions_on_axes_of_percentages_are_pointed_out():
  zoo = make_zoo({"model": list("abcd"), "ID accuracy": [0.4, 0.5, 0.6, 0.7], "fog accuracy": [0.1, 0.2, 0.3, 0.5]})
  (_, found) = fit_trends(zoo, column_pairs(zoo), draws=10)
  assert len(found) == 1 and found[0].startswith("ID accuracy and columns beside it are nowhere above 1")
  assert fit_trends(zoo, column_pairs(zoo), top=1.0, draws=10)[1] == []


def test_a_data_frame_is_the_same_zoo(board):
  pandas = pytest.importorskip("pandas")
  one, other = read_csv(board), read_frame(pandas.read_csv(board))
  assert one.models == other.models and list(one.columns) == list(other.columns)
  assert all(np.array_equal(one.columns[name], other.columns[name]) for name in one.columns)


@pytest.mark.parametrize(
  ("text", "count"),
  [
    ("", 12),
    ("acc+rob>=130", 7),
    ("rob>=45, rob<50", 5),
    ("OOD_d robustness = 25%", 1),
    ("technique=TRADES", 6),
    ("technique!=trades|mart", 6),
    ("technique=*at", 6),
    ("model!=m1*", 9),
  ],
)
def test_filters_keep_what_they_say(board, text, count):
  zoo = apply_filter(read_csv(board), text)
  assert len(zoo) == count and zoo.filters == tuple(part.strip() for part in text.split(",") if part.strip())
  assert all(len(values) == count for values in (*zoo.columns.values(), *zoo.labels.values()))


def test_joined_techniques_are_found_by_each():
  labels = {"model": ["a+trades", "b", "c", "d"], "technique": ["pad-crop-flip+trades", "cutout+pgd-at", "trades", ""]}
  zoo = make_zoo(labels | {"ID robustness": [4, 5, 6, 7]})
  kept = {
    "technique=trades": "ac",
    "technique=pgd*|cutout": "b",
    "technique!=trades": "bd",
    "technique=cutout+pgd-at": "b",
  }
  for text, models in kept.items():
    assert "".join(name[0] for name in apply_filter(zoo, text).models) == models
  with pytest.raises(InputError, match="model is a\\+trades, b, c, d"):
    apply_filter(zoo, "model=trades")  # Names are no techniques.


@pytest.mark.parametrize(
  ("text", "error", "reason"),
  [
    ("rob", InputError, "compares nothing"),
    ("rob>=high", InputError, "needs a number after >="),
    ("rob>=99", InputError, "leaves none of 12 models"),
    ("technique=mart", InputError, "leaves none of 12 models; technique is pgd-at, trades"),
    ("technique>trades", InputError, "only = and != do"),
    ("robb>=4", UnknownNameError, "unknown column of numbers 'robb'"),
    ("tecnique=trades", UnknownNameError, "did you mean 'technique'"),
  ],
)
def test_filters_that_say_nothing_are_refused(board, text, error, reason):
  with pytest.raises(error) as caught:
    apply_filter(read_csv(board), text)
  assert reason in str(caught.value) and "\n" not in str(caught.value)


def test_no_custom_needs_somebody_to_say_which_models_are():
  table = {"model": ["a", "b"], "venue": ["ICML", "Custom"], "ID accuracy": [80, 70]}
  assert apply_filter(make_zoo(table), "no-custom").models == ("a",)
  del table["venue"]
  with pytest.raises(InputError, match="nothing says which models are custom"):
    apply_filter(make_zoo(table), "no-custom")
  assert apply_filter(make_zoo(table | {"custom": [1, "-"]}), "NO-CUSTOM").models == ("b",)
  # Techniques are no answer, unless one of them is.
  table["technique"] = ["pgd-at", "trades"]
  with pytest.raises(InputError, match="nothing says which models are custom"):
    apply_filter(make_zoo(table), "no-custom")
  table["technique"] = ["pgd-at", "custom"]
  assert apply_filter(make_zoo(table), "no-custom").models == ("a",)


def test_trends_of_groups_and_what_could_not_be_fitted(board):
  zoo = read_csv(board)
  pairs = column_pairs(zoo)
  assert [pair[0] for pair in pairs] == ["Rob-Rob", "Acc-Rob"]
  trends, problems = fit_trends(zoo, pairs, group="technique", draws=50)
  assert [trend.group for trend in trends] == ["", "", "pgd-at", "pgd-at", "trades", "trades"] and not problems
  assert all(trend.line.slope == pytest.approx(1) for trend in trends)
  assert trends[0].plain()["zoo"] == zoo.source and trends[0].plain()["models"] == 12
  assert np.allclose(trends[0].residuals(), 0)
  few = zoo.take(np.arange(12) < 5)
  trends, problems = fit_trends(few, pairs, group="technique", draws=50)
  assert len(trends) == 4 and problems == ["technique trades: fewer than 3 models each, so no line of their own"]
  flat = replace(zoo, columns={**zoo.columns, "ID robustness": np.where(np.arange(12) % 2, 45.0, np.arange(12))})
  trends, problems = fit_trends(flat, pairs, group="technique", draws=50)
  assert len(trends) == 5 and problems[0].startswith("technique trades: ID robustness is 45 for all 6 models")
  with pytest.raises(InputError, match="at least 3 models with both, got 2"):
    fit_trends(zoo.take(np.arange(12) < 2), pairs)
  with pytest.raises(InputError, match="ranges from 40 to 51, not within 0 and 1"):
    fit_trends(zoo, pairs[:1], top=1.0)


def test_columns_by_hand(board):
  zoo = read_csv(board)
  assert column_pairs(zoo, "id accuracy", "ood_d robustness") == [("Acc-Rob", "ID accuracy", "OOD_d robustness")]
  assert column_pairs(zoo, "ID robust acc.", "OOD-D robust acc.") == [("Rob-Rob", "ID robustness", "OOD_d robustness")]
  (crossed,), _ = fit_trends(zoo, column_pairs(zoo, "ID accuracy", "OOD_d robustness"), draws=10)
  assert crossed.limit is None and not drops(zoo, column_pairs(zoo, "ID accuracy", "OOD_d robustness"))
  with pytest.raises(InputError, match="say both columns"):
    column_pairs(zoo, "ID accuracy")
  with pytest.raises(InputError, match="no ID and OOD columns here; say --x=COLUMN --y=COLUMN"):
    column_pairs(make_zoo({"model": ["a"], "params": [1]}))
  assert rank_columns(zoo, column_pairs(zoo))[:2] == ("ID robustness", "OOD_d robustness")
  assert drops(zoo, column_pairs(zoo))["OOD_d robustness"].tolist() == [20] * 12
  found = published_trends(zoo, "cifar10-linf")["OOD_d robustness"]
  assert found[0] == pytest.approx(20 - (0.7134 * 40 - 5.238))
  with pytest.raises(UnknownNameError, match="imagenet-linf"):
    published_trends(zoo, "imagenet")
  # Means are preferred to single shifts, whatever the order of columns.
  rob = [40, 50, 60]
  table = {"ID robustness": rob, "fog robustness": rob, "OOD_t[2 of 6] robustness": rob, "R_c robustness": rob}
  zoo = make_zoo({"model": ["a", "b", "c"], **table})
  assert rank_columns(zoo, column_pairs(zoo))[1] == "R_c robustness"


def cell(model, robust, data="cifar10", condition="clean", attack="none", eps=None, n=100, **more):
  name = Cell(model=model, data=data, condition=condition, attack=attack, eps=eps, n=n)
  about = {"technique": "trades", "arch": "r18", "family": "resnet", "params": 11}
  summary = {"robust_accuracy": robust, "accuracy": robust, **more}
  return Result(cell=name, config={}, summary=summary, examples={}, provenance={"model": about})


def suite(model, level, severities=(1, 2)):
  """Cells of a model as the suite leaves them, of two corruptions, one relative and two threats."""
  mm5 = {"attack": "linf-mm5", "eps": "8/255"}
  yield cell(model, 0.9)
  yield cell(model, level, **mm5)
  for at in severities:
    yield cell(model, 0.8 - 0.1 * at, condition=f"fog-{at}-t32")
    yield cell(model, level - 0.1 * at, condition=f"fog-{at}-t32", **mm5)
    yield cell(model, level - 0.05 * at, data=f"cifar10-c:snow-{at}", **mm5)
  yield cell(model, level - 0.2, data="cifar10.1-v6", **mm5)
  yield cell(model, level - 0.15, attack="linf-mm5", eps="12/255")
  yield cell(model, level - 0.05, attack="stadv-100", eps="0.05")
  yield cell(model, 0.01, attack="linf-pgd-20", eps="8/255")
  yield cell(model, 0.02, attack="transfer:x:linf-mm5", eps="8/255")


def test_cells_are_a_zoo_whose_averages_say_what_they_lack():
  levels = {"a": 0.5, "b": 0.45, "c": 0.4}
  zoo = cells_zoo([result for model, level in levels.items() for result in suite(model, level)])
  assert zoo.models == ("a", "b", "c") and zoo.source == "cifar10, linf-mm5@8/255"
  column = lambda name: zoo.column(name).round(6).tolist()
  assert column("ID accuracy") == [90, 90, 90] and column("ID robustness") == [50, 45, 40]
  assert column("fog robustness") == [35, 30, 25] and column("snow robustness") == [42.5, 37.5, 32.5]
  assert column("R_c[4 of 75] robustness") == [38.75, 33.75, 28.75] and column("fog accuracy") == [65, 65, 65]
  assert column("R_n[1 of 4] robustness") == [30, 25, 20] and column("OOD_t[2 of 6] robustness") == [40, 35, 30]
  assert column("stadv-100@0.05 robustness") == [45, 40, 35] and column("params") == [11, 11, 11]
  assert not [name for name in zoo.columns if "pgd" in name or "OOD_d" in name or name.startswith("OOD r")]
  assert zoo.labels["technique"] == ("trades",) * 3


def test_a_model_without_a_condition_of_an_average_has_no_average():
  zoo = cells_zoo([*suite("a", 0.5), *suite("b", 0.45, severities=(1,))])
  assert np.isnan(zoo.column("fog robustness")).tolist() == [False, True]
  assert np.isnan(zoo.column("R_c[4 of 75] robustness")).tolist() == [False, True]
  assert np.isfinite(zoo.column("R_n[1 of 4] robustness")).all()


def test_whole_averages_are_those_of_the_paper():
  mm5 = {"attack": "linf-mm5", "eps": "8/255"}
  results = [cell("a", 0.5, **mm5)]
  results += [cell("a", 0.3, condition=f"{name}-{s}-t32", **mm5) for name in BENCHMARK for s in range(1, 6)]
  # Neither a corruption beyond the fifteen nor a filter is part of the average.
  results += [cell("a", 0.9, condition=condition, **mm5) for condition in ("spatter-5-t32", "cutoff-8", "lowpass-3")]
  results += [cell("a", 0.2, data=f"cifar10-{at}", **mm5) for at in "abde"]
  threats = [
    ("linf-mm5", "12/255"),
    ("l2-mm5", "0.5"),
    *((name, "0.5") for name in ("ppgd", "lpa", "stadv", "recolor")),
  ]
  results += [cell("a", 0.1, attack=attack, eps=eps) for attack, eps in threats]
  zoo = cells_zoo(results, "cifar10", "linf-mm5@8/255")
  found = {
    name: round(float(zoo.column(f"{name} robustness")[0]), 6) for name in ("R_c", "R_n", "OOD_d", "OOD_t", "OOD")
  }
  assert found == {"R_c": 30, "R_n": 20, "OOD_d": 25, "OOD_t": 10, "OOD": 17.5}
  assert zoo.column("spatter robustness") == 90
  assert not [name for name in zoo.columns if name.startswith(("cutoff", "lowpass"))]


def whole(model, level):
  """All cells of a model that the averages of its robustness are made from."""
  mm5 = {"attack": "linf-mm5", "eps": "8/255"}
  yield cell(model, level, **mm5)
  for name in BENCHMARK:
    yield from (cell(model, level - 0.1, condition=f"{name}-{s}-t32", **mm5) for s in range(1, 6))
  yield from (cell(model, level - 0.2, data=f"cifar10-{at}", **mm5) for at in "abde")
  threats = [("linf-mm5", "12/255"), ("l2-mm5", "0.5"), ("ppgd-40", "0.5"), ("lpa-200", "0.5")]
  for attack, eps in [*threats, ("stadv-100", "0.05"), ("recolor-100", "0.06")]:
    yield cell(model, level - 0.3, attack=attack, eps=eps)


def test_an_attack_beyond_those_of_the_paper_changes_no_average():
  usual = [result for model, level in {"a": 0.6, "b": 0.5, "c": 0.4}.items() for result in whole(model, level)]
  # As a folder has them in which models were judged in l2, too.
  more = [cell("a", 0.55, attack="l2-mm5", eps="1"), cell("a", 0.5, condition="fog-3-t32", attack="l2-mm5", eps="1")]
  one, other = cells_zoo(usual), cells_zoo([*usual, *more], attack="linf-mm5@8/255")
  for name in ("OOD_t robustness", "OOD robustness"):
    assert (
      other.column(name).tolist() == pytest.approx(one.column(name).tolist()) and np.isfinite(one.column(name)).all()
    )
  assert other.column("l2-mm5@1 robustness")[0] == pytest.approx(55) and not other.notes
  # A budget that nobody's paper has: what is averaged says how many it is.
  perceptual = [cell(model, 0.1, attack="stadv-100", eps="0.1") for model in "abc"]
  zoo = cells_zoo([*usual, *perceptual])
  assert "OOD_t[7, not 6] robustness" in zoo.columns and "OOD robustness" not in zoo.columns


def test_an_average_that_models_lack_says_why():
  usual = [result for model, level in {"a": 0.6, "b": 0.5, "c": 0.4}.items() for result in whole(model, level)]
  zoo = cells_zoo([*usual, cell("a", 0.5, data="cifar10-f", attack="linf-mm5", eps="8/255")])
  assert np.isnan(zoo.column("R_n[5, not 4] robustness")).tolist() == [False, True, True]
  assert zoo.notes == ("R_n robustness: none for 2 of 3, which lack cifar10-f",)
  zoo = cells_zoo([result for result in usual if not (result.cell.model == "b" and result.cell.condition[:3] == "fog")])
  assert zoo.notes == ("R_c robustness: none for 1 of 3, which lack fog-1, fog-2, fog-3 and 2 more",)


@pytest.mark.parametrize("order", [1, -1])
def test_official_corruptions_and_those_made_here_are_not_mixed(order):
  usual = [result for model, level in {"a": 0.6, "b": 0.5, "c": 0.4}.items() for result in whole(model, level)]
  mm5 = {"attack": "linf-mm5", "eps": "8/255"}
  stored = [cell("a", 0.9, data=f"cifar10-c:{name}-{s}", **mm5) for name in BENCHMARK for s in range(1, 6)]
  zoo = cells_zoo([*usual, *stored][::order])
  assert zoo.column("R_c robustness").tolist() == pytest.approx([50, 40, 30])
  assert len(zoo.notes) == 1 and "cells on images of t32 count, not those of the official files" in zoo.notes[0]
  # The official ones where as many cells have them.
  fog = [cell(model, 0.9, data="cifar10-c:fog-3", **mm5) for model in "abc"]
  small = [result for result in usual if result.cell.condition in ("clean", "fog-3-t32")]
  zoo = cells_zoo([*small, *fog][::order])
  assert zoo.column("fog robustness").tolist() == pytest.approx([90, 90, 90])
  assert "fog: cells on images of the official files count, not those of t32" in zoo.notes


def test_cells_that_leave_a_choice_ask_for_it():
  both = [*suite("a", 0.5), cell("a", 0.9, data="imagenet")]
  with pytest.raises(InputError, match="these results are of cifar10, imagenet: say which, as --data=cifar10"):
    cells_zoo(both)
  assert len(cells_zoo(both, "imagenet")) == 1
  with pytest.raises(UnknownNameError, match="cifar10"):
    cells_zoo(both, "cifar")
  two = [*suite("a", 0.5), cell("a", 0.3, condition="fog-1-t32", attack="linf-pgd-20", eps="8/255")]
  with pytest.raises(
    InputError, match="could be that under linf-mm5@8/255, linf-pgd-20@8/255: say which, as --attack="
  ):
    cells_zoo(two)
  assert cells_zoo(two, attack="linf-pgd*").column("ID robustness").tolist() == [1]
  with pytest.raises(UnknownNameError, match="attack in these results"):
    cells_zoo(two, attack="l1*")
  with pytest.raises(InputError, match="no cell holds an accuracy"):
    cells_zoo([])


@pytest.mark.parametrize(
  ("shares", "there"),
  [
    ([0.9, 0.8, 0.7], True),
    ([0.9, np.nan, 0.7], True),
    ([0.9, 0.8, 0.6], False),
    ([0, 0, 0], False),
    ([0.9, np.nan, np.nan], False),
    ([np.nan] * 3, False),
  ],
)
def test_a_metric_that_some_models_lack_is_told_from_the_zoos_own_and_zeros_are_not(shares, there):
  zoo = make_zoo({"model": list("abc"), "ID accuracy": [90, 80, 70], "ID robustness": [0, 0, 0]})
  assert _is_there(zoo, np.array(shares)) == there


def test_a_results_folder_with_summaries_and_different_sizes(tmp_path):
  for model, level in {"a": 0.5, "b": 0.45, "c": 0.4}.items():
    for result in suite(model, level):
      save_result(tmp_path, result)
  save_result(tmp_path, cell("a", 0.6, attack="linf-mm5", eps="8/255", n=500))
  (tmp_path / "bad.n1.seed0.json").write_text("{")
  metrics = {
    "frequency bias": 0.3,
    "NSD": None,
    "ID accuracy": 0.9,
    "accuracy": {"value": 0.9, "low": 0.8, "high": 1, "n": 9},
  }
  document = {"suite": "ares-bench", "model": "a", "metrics": metrics}
  (tmp_path / "a" / "ares-bench.summary.json").write_text(json.dumps(document))
  (tmp_path / "b" / "x.summary.json").write_text("[]")
  zoo = add_metrics(read_cells(tmp_path), tmp_path)
  assert zoo.column("ID robustness").tolist() == pytest.approx([60, 45, 40]) and len(zoo.date) == 10
  (tmp_path / "linked").mkdir()
  (tmp_path / "linked" / "a").symlink_to(tmp_path / "a")
  assert last_change(tmp_path / "linked") == zoo.date and last_change("gs://bucket") == ""
  (tmp_path / "linked" / "a").unlink()
  assert zoo.column("ares-bench: frequency bias")[0] == 0.3 and np.isnan(zoo.column("ares-bench: accuracy")[1])
  # A suite's metric is no shift, whatever it is called.
  assert zoo.column("ares-bench: ID accuracy")[0] == 0.9 and not any(": " in name for name in zoo.shifts("accuracy"))
  # Nor is what the cells have said already added again.
  for at, model in enumerate("abc"):
    document = {"suite": "oodrb", "model": model, "metrics": {"ID accuracy": 0.9, "norm": at}}
    (tmp_path / model / "oodrb.summary.json").write_text(json.dumps(document))
  again = add_metrics(read_cells(tmp_path), tmp_path)
  assert "oodrb: ID accuracy" not in again.columns and again.column("oodrb: norm").tolist() == [0, 1, 2]
  # A run in another norm is another number, and one of more cells comes before one of fewer.
  for norm, n, value in (("l2", 100, 7), ("", 10, 9)):
    document = {"suite": "oodrb", "model": "a", "n": n, "metrics": {"norm": value}, "partial": not norm}
    (tmp_path / "a" / f"z{norm}.summary.json").write_text(json.dumps({**document, "threat": {"norm": norm}}))
  again = add_metrics(read_cells(tmp_path), tmp_path)
  assert again.column("oodrb: norm").tolist() == [0, 1, 2] and again.column("oodrb l2: norm")[0] == 7
  notes = "\n".join(zoo.notes)
  assert "bad.n1.seed0.json" in notes and "id: cells of 100, 500 examples" in notes and "not a summary" in notes
