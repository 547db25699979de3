"""The command line: help and lists, one end-to-end run, finished cells never computed twice."""

import json
import os
import re
import shutil
from importlib import metadata

import numpy as np
import pytest
from ml_collections import ConfigDict

from jaxrobust.cli.attack import _targets
from jaxrobust.cli.bench import BENCHES
from jaxrobust.cli.configuration import attack_options
from jaxrobust.cli.main import COMMANDS
from jaxrobust.cli.options import COMMON, OWN
from jaxrobust.core.errors import InputError
from jaxrobust.core.lpips import Lpips
from jaxrobust.evaluation.metrics.proportions import proportion
from jaxrobust.evaluation.targets import random_targets
from jaxrobust.results import load_result, load_results
from tests.cli.calling import TINY, call, cells, files, refused


def state(folder):
  return {name: (path.stat().st_mtime_ns, path.read_bytes()) for name, path in files(folder).items()}


def verdicts(path):
  """A cell without confidences, whose last digits follow the batch size."""
  result = load_result(path)
  examples = {name: array.tolist() for name, array in result.examples.items() if name != "confidence"}
  summary = {name: value for name, value in result.summary.items() if name != "confidence"}
  return result.cell, result.config, result.provenance, result.findings, examples, summary


@pytest.mark.parametrize("words", [(), ("-h",), ("--help",), ("help",)])
def test_help_lists_every_command(words):
  code, out, err = call(*words)
  assert code == 0 and not err and all(f"  {name} " in out for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command):
  code, out, err = call(command, "--help")
  assert code == 0 and not err and f"jaxrobust {command}" in out


@pytest.mark.parametrize(
  "words",
  [(name,) for name in COMMANDS if name not in ("bench", "list", "reproduce")] + [("bench", name) for name in BENCHES],
)
def test_every_option_of_every_command_has_a_line_of_help(words):
  code, out, _ = call(*words, "--help")
  lines = [line for line in out.splitlines() if line.startswith("  --")]
  assert code == 0 and lines
  for line in lines:
    option, _, text = line.strip().partition("  ")
    assert "=" in option and len(text.strip()) > 10 and len(line) <= 120, line


def test_no_line_of_help_is_of_an_option_that_is_gone():
  shown = {words: call(*words, "--help")[1] for words in [(name,) for name in OWN] + [("bench", b) for b in BENCHES]}
  for command, lines in {**OWN, "": COMMON}.items():
    text = "".join(out for words, out in shown.items() if command in ("", words[0]))
    assert not [name for name in lines if not re.search(rf"^  --{name}[=.]", text, re.MULTILINE)]


def test_version_is_that_of_the_package():
  assert call("--version") == (0, metadata.version("jaxrobust") + "\n", "")


@pytest.mark.parametrize(
  ("kind", "names"),
  [
    ("attacks", {"fgsm", "bim", "pgd", "mim"}),
    ("models", {"cnn-a", "cnn-tiny", "resnet20"}),
    ("datasets", {"digits32", "digits32-train", "npz:PATH"}),
    ("suites", {"basic", "clean"}),
  ],
)
def test_lists_name_and_describe_what_there_is(kind, names):
  code, out, err = call("list", kind)
  rows = dict(line.split(maxsplit=1) for line in out.splitlines())
  assert code == 0 and not err and names <= set(rows) and all(rows.values())
  assert sorted(rows) == sorted(set(rows))


def test_lists_take_a_pattern():
  _, out, _ = call("list", "models", "resnet*")
  assert "resnet20 " in out and "cnn" not in out
  assert call("list", "attacks", "no-such-*")[:2] == (0, "")


def test_a_run_trains_evaluates_and_prints_one_table(tiny):
  folder, out = tiny
  for word in ("standard", "pgd-at", "clean", "linf-fgsm@16/255", "linf-pgd-20@16/255", "cells in"):
    assert word in out
  page = folder / "site" / "index.html"
  assert out.endswith(f"the page is {page}\n") and page.is_file()
  results = list(load_results(folder / "results"))
  assert sorted((r.cell.model, r.cell.attack) for r in results) == [
    (model, attack) for model in ("pgd-at", "standard") for attack in ("linf-fgsm", "linf-pgd-20", "none")
  ]
  for result in results:
    assert result.cell.n == 32 and result.cell.eps == (None if result.cell.attack == "none" else "16/255")
    robust = result.examples["robust"]
    assert result.summary["robust_accuracy"] == robust.mean() and not (robust & ~result.examples["correct"]).any()
    assert f" {proportion(robust)} │" in out  # With its interval.


def test_timings_lie_beside_the_cells(tiny):
  for cell in cells(tiny[0] / "results"):
    timing = json.loads(cell.with_name(cell.name.removesuffix(".json") + ".timing.json").read_text())
    assert timing["seconds"] > 0 and timing["images_per_second"] > 0


def test_a_second_run_computes_nothing_and_prints_the_same_table(tiny):
  folder, out = tiny
  before = state(folder)
  code, again, err = call("run", "--config", TINY, "--out", folder, "--quiet")
  assert (code, again, err) == (0, out, "")
  assert state(folder) == before


def test_evaluate_reuses_the_cells_of_a_run(tiny):
  folder, _ = tiny
  before = state(folder)
  words = ["--name=standard", "--n=32", "--eps=16/255", "--quiet", "--out", folder / "results"]
  code, out, _ = call("evaluate", "--model", folder / "models" / "standard", *words)
  assert code == 0 and "linf-pgd-20@16/255" in out and state(folder) == before


def test_the_same_verdicts_come_out_of_another_folder_and_batch_size(tiny, tmp_path):
  folder, _ = tiny
  words = ["--n=32", "--norm=linf", "--eps=16/255", "--quiet", "--batch_size=16", "--out", tmp_path]
  assert call("evaluate", "--model", folder / "models" / "pgd-at", *words)[0] == 0
  assert {c.name: verdicts(c) for c in cells(tmp_path)} == {
    c.name: verdicts(c) for c in cells(folder / "results/pgd-at")
  }
  assert len(cells(tmp_path)) == 3


def test_a_changed_model_under_the_same_name_ends_with_code_3_and_touches_nothing(tiny):
  folder, _ = tiny
  before = state(folder)
  words = ["--name=standard", "--n=32", "--eps=16/255", "--quiet", "--out", folder / "results"]
  refused(3, "model_fingerprint", "evaluate", "--model", folder / "models" / "pgd-at", *words)
  assert state(folder) == before


def test_a_truncated_cell_ends_with_code_3_and_other_cells_stay_untouched(tiny, tmp_path):
  folder = shutil.copytree(tiny[0], tmp_path / "run")
  victim = next(path for path in cells(folder / "results") if "pgd-20" in path.name and "standard" in str(path))
  victim.write_bytes(victim.read_bytes()[:100])
  before = state(folder)
  refused(3, f"{victim}: truncated or not JSON", "run", "--config", TINY, "--out", folder, "--quiet")
  assert state(folder) == before


def test_a_removed_cell_is_computed_again_to_the_same_bytes(tiny, tmp_path):
  folder = shutil.copytree(tiny[0], tmp_path / "run")
  victim = next(path for path in cells(folder / "results") if "fgsm" in path.name)
  raw = victim.read_bytes().replace(bytes(tiny[0]), bytes(folder))  # Its command names the network's folder.
  victim.unlink()
  others = {path: path.stat().st_mtime_ns for path in cells(folder / "results")}
  assert call("run", "--config", TINY, "--out", folder, "--quiet")[0] == 0
  assert victim.read_bytes() == raw
  assert others == {path: os.stat(path).st_mtime_ns for path in others}


def test_targets_of_attack_are_those_of_suites():
  labels = np.arange(50) % 10
  drawn = _targets("random", labels, 10, 3)
  np.testing.assert_array_equal(drawn, random_targets(3, np.arange(50), labels, 10))
  assert (drawn != labels).all() and (_targets("random", labels, 10, 4) != drawn).any()
  with pytest.raises(InputError, match="'random', 'next'"):
    _targets("rnd", labels, 10, 0)


@pytest.mark.parametrize("targets", ["", "random"])
def test_attack_writes_the_documented_arrays(tiny, tmp_path, targets):
  out = tmp_path / "new" / "adversarial.npz"
  model = tiny[0] / "models" / "standard"
  words = [
    "--attack=fgsm",
    "--eps=16/255",
    "--n=20",
    "--batch_size=16",
    f"--targets={targets}",
    "--quiet",
    "--out",
    out,
  ]
  code, text, err = call("attack", "--model", model, *words)
  assert code == 0 and not err and f"images are in {out}" in text
  with np.load(out, allow_pickle=False) as data:
    arrays = dict(data)
  types = {
    "images": "float32", "labels": "int32", "success": "bool", "distance": "float32",
    "queries": "int64", "correct": "bool", "nan": "int32", "flat": "int32", "robust": "bool",
  }  # fmt: skip
  assert {name: str(array.dtype) for name, array in arrays.items()} == types
  assert arrays["images"].shape == (20, 32, 32, 3) and all(len(array) == 20 for array in arrays.values())
  assert arrays["images"].min() >= 0 and arrays["images"].max() <= 1
  assert f"{arrays['correct'].mean():.2%} correct, {arrays['robust'].mean():.2%} robust" in text
  assert sorted(path.name for path in out.parent.iterdir()) == ["adversarial.npz"]


def test_attack_takes_other_images_from_the_whole_data_set(tiny, tmp_path):
  words = ("attack", "--model", tiny[0] / "models" / "standard", "--attack=admix", "--options.num_steps=2", "--quiet")
  images = {}
  for n in (2, 6):
    out = tmp_path / f"{n}.npz"
    assert call(*words, f"--n={n}", "--eps=0.2", "--batch_size=8", "--out", out)[0] == 0
    with np.load(out) as data:
      images[n] = data["images"]
  np.testing.assert_array_equal(images[2], images[6][:2])


def test_perceptual_threats_of_attack_are_named():
  given = lambda **options: attack_options(ConfigDict({"options": options}))
  assert given(threat="lpips-self", num_steps=3) == {"threat": Lpips(), "num_steps": 3}
  assert given(norm="l2") == {"norm": "l2"}


@pytest.mark.parametrize(
  ("words", "threat", "distance"),
  [
    (["--attack=ddn"], "l2 ddn without a budget", True),
    (["--attack=deepfool", "--options.norm=linf"], "linf deepfool without a budget", True),
    (["--attack=deepfool", "--eps=0.1"], "l2 deepfool at eps 0.1", True),
    (["--attack=fgsm"], "linf fgsm at eps 8/255", False),
    (["--attack=fgsm", "--options.norm=l2"], "l2 fgsm at eps 0.5", False),
  ],
)
def test_attacks_get_a_norm_and_a_budget_that_suit_them(tiny, tmp_path, words, threat, distance):
  out = tmp_path / "a.npz"
  code, text, _ = call("attack", "--model", tiny[0] / "models" / "standard", "--n=8", "--quiet", "--out", out, *words)
  assert code == 0 and text.startswith(f"{threat}: ") and ("median distance" in text) == distance
  with np.load(out) as data:
    arrays = dict(data)
  if distance:
    assert f"median distance {np.median(arrays['distance'][arrays['correct']]):.4g};" in text
  if "without" in threat:  # Every image gets an adversarial one, however far it is.
    assert arrays["success"].all() and (arrays["distance"][arrays["correct"]] > 0).all()
