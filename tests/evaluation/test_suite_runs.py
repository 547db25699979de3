"""Whole suites on the embedded digits and their stand-ins: complete, resumable, without repeated work."""

from __future__ import annotations

import json
import re

import jax
import numpy as np
import pytest

from jaxrobust.core.errors import InputError
from jaxrobust.engine import scheduler
from jaxrobust.engine.options import EngineOptions
from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.studies.rows import suite_metrics
from jaxrobust.evaluation.suites import attack_entry, clean_entry, targeted
from jaxrobust.evaluation.suites.report import Report, mean
from jaxrobust.evaluation.suites.summary import summarize_suite, write_summary
from jaxrobust.models.registry import make_model
from jaxrobust.models.zoo import save_classifier
from jaxrobust.results import load_results
from tests.evaluation.digits_model import digits_classifier

OPTIONS = RunOptions(EngineOptions.for_platform(16), quiet=True)
N = 16


@pytest.fixture(scope="module")
def classifier():
  return digits_classifier()


@pytest.fixture(scope="module")
def out(tmp_path_factory):
  return tmp_path_factory.mktemp("suites")


def run(classifier, suite, out, **options) -> Report:
  return evaluate(classifier, "digits32", suite, n=N, name="means", out=out, options=OPTIONS, **options)


@pytest.mark.ci
def test_oodrb_completes_and_its_metrics_follow_from_the_cells(classifier, out):
  lines: list[str] = []
  report = run(classifier, "oodrb,small", out, announce=lines.append, eps="4/255", partial=True)
  assert lines[0].startswith("oodrb-small: 32 cells on 13 data sets and conditions, none") and "at most" in lines[-1]
  summary = summarize_suite(report)
  metrics = summary["metrics"]
  by_cell = {(r.cell.data, r.cell.condition, r.cell.attack, r.cell.eps): r for r in load_results(out)}
  robust = {key: r.examples["robust"].mean() for key, r in by_cell.items() if "mm5" in key[2]}
  corrupted = [value for (_, condition, _, _), value in robust.items() if condition != "clean"]
  natural = [value for (data, _, _, _), value in robust.items() if data != "digits32"]
  threats = [value for (_, _, _, eps), value in robust.items() if eps != "4/255"]
  assert (len(corrupted), len(natural), len(threats)) == (8, 4, 2)
  assert metrics["R_c"] == pytest.approx(np.mean(corrupted)) and metrics["R_n"] == pytest.approx(np.mean(natural))
  assert metrics["OOD_d"] == pytest.approx((np.mean(corrupted) + np.mean(natural)) / 2)
  # Perceptual bounds are those of a network that is not the paper's: the number and what is built on it say so.
  (unforeseen,) = (name for name in metrics if name.startswith("OOD_t"))
  network = unforeseen.removeprefix("OOD_t")
  assert re.fullmatch(r" \[lpips-cifar10-alexnet-half\.[0-9a-f]{6}\]", network)
  others = [
    r.examples["robust"] for (_, _, attack, _), r in by_cell.items() if attack.startswith(("lpips", "fl", "co"))
  ]
  assert len(others) == 4 and metrics[unforeseen] == pytest.approx(np.mean([*threats, *np.mean(others, axis=1)]))
  assert metrics[f"OOD{network}"] == pytest.approx((metrics["OOD_d"] + metrics[unforeseen]) / 2)
  norms = [
    r.examples["robust"]
    for (_, _, _, eps), r in by_cell.items()
    if eps in ("12/255", "0.5") and r.cell.condition == "clean"
  ]
  assert metrics[f"worst of the threats{network}"] <= min(np.mean([*norms, *others], axis=1))
  identity = metrics["ID robustness"]
  assert identity["n"] == N and identity["low"] <= identity["value"] <= identity["high"]
  assert summary["tables"]["corruptions, accuracy"]["severity curve"]["x"] == [0, 1, 5]
  path = write_summary(out, report, summary)
  assert path.name == "oodrb-small@digits32.linf-4_255.n16.seed0.summary.json"
  stored = json.loads(path.read_text())
  assert stored["metrics"][f"OOD{network}"] == pytest.approx(metrics[f"OOD{network}"]) and len(stored["cells"]) == 32


def test_a_number_without_all_its_cells_says_so_and_is_written_elsewhere(classifier, out):
  whole = run(classifier, "nas-cell,small", out)
  part = run(classifier, "nas-cell,small", out, only="digits32/fog-*/none")
  other = run(classifier, "nas-cell,small", out, only="digits32/defocus_blur-*/none")
  paths = [write_summary(out, report, summarize_suite(report)) for report in (whole, part, other)]
  names = [path.name.removeprefix("nas-cell-small@digits32.n16.seed0.") for path in paths]
  assert names[0] == "summary.json" and [name.partition("-")[0] for name in names[1:]] == ["partial"] * 2
  assert len(set(names)) == 3, "neither the whole one nor that of other cells is overwritten"
  assert suite_metrics(paths[0].parent) == suite_metrics(paths[0].parent, N) and not suite_metrics(paths[0].parent, 99)
  summary = json.loads(paths[1].read_text())
  assert summary["partial"] and summary["metrics"]["corruption accuracy"] == {
    "value": pytest.approx(mean(part.group("corruption"))),
    "cells": 2,
    "of": 8,
  }
  assert isinstance(json.loads(paths[0].read_text())["metrics"]["corruption accuracy"], float)


@pytest.mark.ci
def test_a_second_run_computes_nothing_and_says_so(classifier, out, monkeypatch):
  run(classifier, "oodrb,small", out, eps="4/255")
  monkeypatch.setattr(scheduler.Engine, "turn", lambda self: 1 / 0)
  lines: list[str] = []
  report = run(classifier, "oodrb,small", out, announce=lines.append, eps="4/255")
  assert "32 of them there already" in lines[0] and len(report.results) == 32


def test_nas_cells_have_matrices(classifier, out):
  report = run(classifier, "nas-cell,small", out)
  for result in report.results:
    summary, examples = result.summary, result.examples
    confusion = np.array(summary["confusion"])
    assert confusion.sum() == N and np.trace(confusion) == (examples["label"] == examples["prediction"]).sum()
    assert np.array(summary["confidence"]["label"], float).shape == (10, 10)
    for row in summary["confidence"]["argmax"]:
      assert row[0] is None or sum(row) == pytest.approx(1, abs=1e-4)
    right = examples["label"] == examples["prediction"]
    if right.any():
      assert summary["confidence"]["prediction"][0] == pytest.approx(examples["confidence"][right].mean(), abs=1e-5)
  metrics = summarize_suite(report)["metrics"]
  assert set(metrics) >= {"clean", "linf-fgsm@4/255", "linf-square-20@0.5/255", "corruption accuracy"}


def test_robustart_completes(classifier, out, tmp_path):
  alone = summarize_suite(run(classifier, "robustart,small,scaled", out))["metrics"]
  assert alone["WCAR, small"].keys() == {"value", "cells", "of"} and alone["WCAR, small"]["of"] == 5
  with pytest.raises(InputError, match="'basic' has no attack by transfer"):
    run(classifier, "basic", out, transfer_from=tmp_path / "other")
  module = make_model("cnn-tiny", num_classes=10)
  variables = module.init(jax.random.key(0), np.zeros((1, 32, 32, 3), np.float32))
  save_classifier(tmp_path / "other", "cnn-tiny", variables, num_classes=10)
  report = run(classifier, "robustart,small,scaled", out, transfer_from=tmp_path / "other")
  (moved,) = (cell for cell in report.cells if cell.entry.title == "transfer:other:linf-fgsm@8/255")
  assert moved.result.config["transfer"]["source"] == "other"
  summary = summarize_suite(report)
  metrics = summary["metrics"]
  for size in ("small", "middle", "large"):
    worst = metrics[f"WCAR, {size}"]["value"]
    assert len(summary["tables"][f"AR, {size}"]) == 5 and "of" not in metrics[f"WCAR, {size}"]
    assert worst <= min(row["value"] for row in summary["tables"][f"AR, {size}"].values())
  assert -1 <= metrics["NmFP"] <= 0 and -1 <= metrics["NSD"] <= 0 and 0 <= metrics["AUPR"] <= 1
  # One decoder and two resizes, one of them the usual: either way of counting has the same cells.
  assert metrics["NSD, one factor"] == metrics["NSD"]
  assert summary["suite"] == "robustart-small-scaled-from-other", "another source is another number"
  assert metrics["1 - mCE"] is None  # AlexNet's errors are about ImageNet-C alone.
  assert metrics["hard accuracy"]["n"] == N


@pytest.mark.ci
def test_ares_bench_completes(classifier, out):
  summary = summarize_suite(run(classifier, "ares-bench,small", out))
  curve = summary["curves"]["AutoAttack"]
  assert len(curve["x"]) == 33 and (np.diff(curve["y"]) <= 0).all()
  assert 1 <= summary["metrics"]["frequency bias"] <= 16 and summary["curves"]["low-pass"]["y"][-1] == 1
  assert 0 < summary["metrics"]["Avg."] < 1
  assert {"digits32-v2", "digits32-sketch", "corruption accuracy"} <= set(summary["metrics"])


@pytest.mark.slow
def test_ares_curves_come_from_single_runs(classifier, out):
  summary = summarize_suite(run(classifier, "ares,small", out))
  budget = summary["curves"]["budget: linf-bim-6,step_size=0.3-minimum-budget"]
  strength = summary["curves"]["strength: linf-bim-6,step_size=0.3@8/255"]
  steps = summary["metrics"]["linf-bim-6,step_size=0.3@8/255"]["value"]
  assert budget["y"][0] == strength["y"][0] == summary["metrics"]["accuracy"]["value"]
  assert strength["y"][-1] == steps and (np.diff(strength["y"]) <= 0).all() and (np.diff(budget["y"]) <= 0).all()
  nes = summary["curves"]["strength: linf-nes-100,pairs=5@8/255"]
  assert nes["unit"] == "queries" and nes["x"][-1] == 100 and nes["y"][0] == summary["metrics"]["accuracy"]["value"]
  success = summary["curves"]["strength, success rate: linf-nes-100,pairs=5@8/255"]
  np.testing.assert_allclose(1 - np.array(nes["y"]) / nes["y"][0], success["y"], atol=1e-12)
  zoo = summary["curves"]["strength: l2-zoo-100@1.0"]
  assert zoo["unit"] == "queries" and 0 <= summary["metrics"]["area, queries: l2-zoo-100@1.0"] <= zoo["y"][0]
  distances = summary["curves"]["budget: l2-zoo-100"]
  assert zoo["y"][-1] == distances["y"][distances["x"].index(1.0)]
  budget, queries = (summary["curves"][name] for name in ("budget: l2-boundary-100", "strength: l2-boundary-100@1.0"))
  # Both curves of one run: all its queries, at the budget of the other curve.
  assert queries["unit"] == "queries" and queries["x"][-1] == 100 and queries["y"][0] == budget["y"][0]
  assert queries["y"][-1] == budget["y"][budget["x"].index(1.0)]
  assert "budget: l2-zoo-100" in summary["curves"] and "budget: l2-nes-100,pairs=5-minimum-budget" in summary["curves"]


def test_attacks_share_one_clean_pass_and_read_the_same_bits(classifier, tmp_path, monkeypatch):
  entries = [clean_entry(), attack_entry("fgsm", "8/255"), attack_entry("pgd", "8/255", num_steps=3, norm="linf")]
  entries.append(targeted(entries[2]))
  passes = []
  plain = scheduler.judge_clean
  monkeypatch.setattr(scheduler, "judge_clean", lambda *rows: passes.append(1) or plain(*rows))
  run(classifier, entries[:1], tmp_path / "once")
  once = len(passes)
  together = run(classifier, entries, tmp_path / "together")
  assert once > 0 and len(passes) == 2 * once
  for index, entry in enumerate(entries):
    alone = run(classifier, [entry], tmp_path / "alone").results[0]
    for name, array in alone.examples.items():
      np.testing.assert_array_equal(array, together.results[index].examples[name], err_msg=f"{entry.title} {name}")


def test_what_is_missing_is_listed_and_the_rest_runs(classifier, tmp_path, monkeypatch):
  monkeypatch.setenv("JAXROBUST_DATASETS", str(tmp_path))
  from jaxrobust.evaluation.suites import shifted_datasets

  monkeypatch.setitem(shifted_datasets.NATURAL, "digits32", ("cifar10.1-v6", "imagenet-a", "digits32-a"))
  monkeypatch.setattr(shifted_datasets, "FEW", ("brightness",))
  lines: list[str] = []
  report = run(classifier, "oodrb,small", tmp_path, announce=lines.append, only="*/none")
  assert "get cifar10.1-v6 from https://" in report.missing["cifar10.1-v6"] and "imagenet-a" in report.missing
  assert sum(line.startswith("missing: ") for line in lines) == 2
  assert {cell.part.data for cell in report.cells} == {"digits32", "digits32-a"}
  monkeypatch.delenv("JAXROBUST_DATASETS")
  assert summarize_suite(report)["metrics"]["A_n"]["of"] == 3 and summarize_suite(report)["metrics"]["OOD_d"] is None
  again = run(classifier, "oodrb,small", tmp_path, only="*/none")
  assert "set JAXROBUST_DATASETS" in again.missing["imagenet-a"] and "https://" in again.missing["imagenet-a"]


def test_targets_are_wrong_classes_and_reaching_them_is_the_only_success(classifier, tmp_path):
  plain = attack_entry("pgd", "24/255", num_steps=8)
  both = run(classifier, [plain, targeted(plain)], tmp_path).results
  free, aimed = (result.examples for result in both)
  assert (free["robust"] <= aimed["robust"]).all() and free["robust"].sum() < aimed["robust"].sum()
  assert both[1].config["targets"] == "random"


def test_some_adversarial_images_are_kept(classifier, tmp_path):
  options = RunOptions(EngineOptions.for_platform(16), quiet=True, save_images=3)
  entry = attack_entry("pgd", "64/255", num_steps=8)
  report = evaluate(classifier, "digits32", [entry], n=N, name="means", out=tmp_path, options=options)
  (file,) = tmp_path.rglob("*.images.npz")
  kept, examples = np.load(file), report.results[0].examples
  broken = np.flatnonzero(examples["correct"] & ~examples["robust"])[:3]
  assert kept["clean"].dtype == np.uint8 and kept["adversarial"].shape == (3, 32, 32, 3)
  np.testing.assert_array_equal(kept["label"], examples["label"][broken])
  np.testing.assert_array_equal(kept["prediction"], examples["prediction"][broken])
  assert 0 < np.abs(kept["clean"].astype(int) - kept["adversarial"]).max() <= 65


def test_the_strength_curve_equals_runs_with_fewer_steps(classifier, tmp_path):
  entry = lambda steps: attack_entry("bim", "24/255", num_steps=steps, step_size=0.1)
  whole = run(classifier, [entry(8)], tmp_path).results[0].examples
  for steps in (1, 3, 7, 8):
    shorter = run(classifier, [entry(steps)], tmp_path).results[0].examples
    standing = whole["correct"] & ((whole["broken_at"] < 0) | (whole["broken_at"] > steps))
    np.testing.assert_array_equal(standing, shorter["robust"])
  assert len(set(whole["broken_at"])) > 3 and (whole["broken_at"][~whole["correct"]] == 0).all()
