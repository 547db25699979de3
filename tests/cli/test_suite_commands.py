"""evaluate --suite, reproduce and transfer on saved classifiers."""

from __future__ import annotations

import json
import shlex

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.models.registry import make_model
from jaxrobust.models.zoo import save_classifier
from jaxrobust.results import load_result, load_results
from jaxrobust.results.cell import Result
from jaxrobust.results.store import save_result
from tests.cli.calling import call, refused


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
  folder = tmp_path_factory.mktemp("networks")
  module = make_model("cnn-tiny", num_classes=10)
  for seed, name in enumerate(("one", "two")):
    variables = module.init(jax.random.key(seed), jnp.zeros((1, 32, 32, 3)))
    notes = {"train": {"techniques": ["pgd-at"]}}
    save_classifier(folder / name, "cnn-tiny", variables, num_classes=10, notes=notes)
  return folder


COMMON = ["--n=12", "--batch_size=8"]


@pytest.fixture(scope="module")
def evaluated(networks, tmp_path_factory):
  out = tmp_path_factory.mktemp("out")
  only = ["--suite=nas-cell,small", "--only=digits32/clean/linf-fgsm@*"]
  code, text, err = call("evaluate", "--model", networks / "one", "--out", out, "--save_images=2", *only, *COMMON)
  assert code == 0, err
  return out, text, err


def test_a_suite_says_what_it_will_run_and_prints_and_stores_its_metrics(evaluated):
  out, text, err = evaluated
  assert "nas-cell-small: 2 cells on 1 data set and condition, none" in err and "at most" in err
  assert "linf-fgsm@4/255" in text and "summary: " in text
  (path,) = (out / "one").glob("nas-cell-small@digits32.n12.seed0.partial-*.summary.json")
  summary = json.loads(path.read_text())
  for result in load_results(out):
    assert summary["metrics"][result.cell.id]["value"] == result.examples["robust"].mean()


def test_images_that_the_network_does_not_take_are_refused_before_any_plan(networks, tmp_path):
  np.savez(tmp_path / "gray.npz", images=np.zeros((4, 28, 28, 1), np.uint8), labels=np.zeros(4, int), num_classes=10)
  words = ["--suite=clean", "--data", f"npz:{tmp_path / 'gray.npz'}", "--out", tmp_path / "out"]
  refused(2, "images are (28, 28, 1)", "evaluate", "--model", networks / "one", *words)


def test_a_cell_knows_its_network_and_the_command_that_makes_it_again(evaluated, networks, tmp_path):
  out, _, _ = evaluated
  result = next(r for r in load_results(out) if r.cell.attack == "linf-fgsm" and r.cell.eps == "4/255")
  about = result.provenance["model"]
  assert about["arch"] == "cnn-tiny" and about["technique"] == "pgd-at" and about["params"] > 1000
  words = shlex.split(result.provenance["command"])
  assert words[:2] == ["jaxrobust", "evaluate"] and str(out) not in result.provenance["command"]
  code, _, err = call(*words[1:], "--out", tmp_path, "--quiet")
  assert code == 0, err
  (again,) = load_results(tmp_path)
  assert again.cell == result.cell and again.summary == result.summary


def test_reproduce_confirms_a_cell_and_finds_a_forged_one(evaluated, tmp_path):
  out, _, _ = evaluated
  result = next(r for r in load_results(out) if r.cell.attack == "linf-fgsm" and r.cell.eps == "4/255")
  code, text, err = call("reproduce", result.cell.path(out), "--quiet")
  assert code == 0 and "matches: every number of the cell is the same" in text, (text, err)
  robust = result.examples["robust"].copy()
  robust[[3, 5]] ^= True
  forged = Result(**{**vars(result), "examples": {**result.examples, "robust": robust}})
  code, text, _ = call("reproduce", save_result(tmp_path, forged), "--quiet")
  assert code == 3 and "DIFFERS" in text and "robust: 2 examples differ, first 3, 5" in text


def test_a_cascade_by_yield_prints_its_order_and_its_pilot_can_be_made_again(networks, tmp_path):
  given = ["evaluate", "--model", networks / "one", "--suite=cascade", "--batch_size=8", "--out", tmp_path, "--quiet"]
  code, text, err = call(*given, "--stages=fgsm:bim,num_steps=2", "--order=yield", "--pilot=8", "--n=12")
  assert code == 0 and "order by yield on 8 examples: linf-" in text and " to measure" in text, err
  stored = {str(result.cell): result for result in load_results(tmp_path)}
  assert sum(result.cell.n == 8 for result in stored.values()) == 2 and len(stored) == 4
  # One stage as text is the cell of its attack: that of the pilot is taken from disk.
  pilot = next(result for result in stored.values() if result.cell.attack == "linf-fgsm")
  assert call(*given, "--stages=fgsm", "--n=8", "--only=*fgsm*")[0] == 0
  assert {str(result.cell) for result in load_results(tmp_path)} == set(stored)
  code, text, err = call("reproduce", pilot.cell.path(tmp_path), "--quiet")
  assert code == 0 and "matches: every number of the cell is the same" in text, (text, err)


def test_reproduce_names_what_it_cannot_do(evaluated, tmp_path):
  out, _, _ = evaluated
  result = load_result(next(path for path in out.rglob("*.json") if "fgsm" in path.name and "timing" not in path.name))
  bad = (
    None,
    3,
    "",
    "rm -r x",
    "jaxrobust",
    "jaxrobust run",
    "jaxrobust evaluate '",
    "jaxrobust evaluate --config=x.py",
  )
  for command in bad:
    bare = Result(**{**vars(result), "provenance": {"command": command}})
    refused(2, "does not say which command made it", "reproduce", save_result(tmp_path, bare))
  refused(3, "no such file", "reproduce", tmp_path / "nothing.json")


def test_transfer_prints_a_map(networks, tmp_path):
  words = ["--models", networks / "one", networks / "two", "--attack=fgsm", "--eps=8/255", "--n=8"]
  code, text, err = call("transfer", *words, "--out", tmp_path)
  assert code == 0, err
  assert "made on \\ shown to" in text and "one" in text and "two" in text
  assert sorted((r.cell.model, r.cell.attack) for r in load_results(tmp_path)) == [
    (target, f"transfer:{source}:linf-fgsm") for target in ("one", "two") for source in ("one", "two")
  ]
  cell = next(path for path in tmp_path.rglob("transfer*two*seed0.json") if "one" in path.parts)
  code, text, err = call("reproduce", cell)
  assert code == 0 and "matches: every number" in text, (text, err)
  refused(2, "at least two classifiers", "transfer", "--models", networks / "one", "--out", tmp_path)


def test_transfer_runs_the_transfer_part_of_a_suite(networks, tmp_path):
  words = [
    "--models",
    networks / "one",
    "--targets",
    networks / "two",
    "--suite=ares,small",
    "--n=8",
    "--out",
    tmp_path,
  ]
  code, text, err = call("transfer", *words)
  assert code == 0, err
  assert "images made on one" in text and "linf-dim-4,step_size=0.3@8/255" in text
  summary = json.loads((tmp_path / "two" / "transfer-ares-small@digits32.n8.seed0.summary.json").read_text())
  assert len(summary["metrics"]) == len(list(load_results(tmp_path))) == 4
  assert summary["curves"]["steps: transfer:one:linf-dim-4,step_size=0.3@8/255"]["x"] == [0, 1, 2, 3, 4]
  assert len(summary["curves"]["budget: transfer:one:linf-fgsm"]["x"]) == 3
  refused(2, "sets its own attacks; leave out --attack", "transfer", *words, "--attack=bim")
  assert "8 of 500 examples" in call("transfer", "--suite=ares,small", "--n=8", "--dry_run")[1]
  refused(2, "dry_run is of suites", "transfer", "--dry_run")
  refused(2, "unknown option of transfer suite 'ares' 'tiny'", "transfer", *words[:-4], "--suite=ares,tiny")
