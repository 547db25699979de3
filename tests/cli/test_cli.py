"""The command line: documented exit codes, one line per error, finished cells never computed twice."""

import contextlib
import io
import json
import os
import pathlib
import shutil
from importlib import metadata

import numpy as np
import pytest

from jaxrobust.cli.main import COMMANDS, main
from jaxrobust.results import load_result, load_results

ROOT = pathlib.Path(__file__).parents[2]
TINY = f"{ROOT}/configs/local.py:tiny"


def call(*words):
  """Exit code, standard output and standard error of one command, in this process."""
  out, err = io.StringIO(), io.StringIO()
  with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
    try:
      code = main([str(word) for word in words])
    except SystemExit as leave:
      code = leave.code
  return code, out.getvalue(), err.getvalue()


def refused(code, reason, *words):
  """The command must end with this code and one line on standard error."""
  found, out, err = call(*words)
  assert err.startswith("error: ") and err.count("\n") == 1 and err.endswith("\n"), err
  assert reason in err, err
  assert (found, out) == (code, "")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
  """One end-to-end run: two networks trained for an epoch, three cells each."""
  folder = tmp_path_factory.mktemp("cli") / "run"
  code, out, err = call("run", "--config", TINY, "--out", folder, "--quiet")
  assert code == 0, err
  return folder, out


def files(folder):
  return {path.relative_to(folder): path for path in sorted(folder.rglob("*")) if path.is_file()}


def state(folder):
  return {name: (path.stat().st_mtime_ns, path.read_bytes()) for name, path in files(folder).items()}


def cells(folder):
  return [path for name, path in files(folder).items() if name.name.endswith(".json") and ".timing" not in name.name]


def verdicts(path):
  """A cell without confidences, whose last digits follow the batch size."""
  result = load_result(path)
  examples = {name: array.tolist() for name, array in result.examples.items() if name != "confidence"}
  summary = {name: value for name, value in result.summary.items() if name != "confidence"}
  return result.cell, result.config, result.provenance, result.findings, examples, summary


@pytest.mark.parametrize("words", [(), ("-h",), ("--help",)])
def test_help_lists_every_command(words):
  code, out, err = call(*words)
  assert code == 0 and not err and all(f"  {name} " in out for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command):
  code, out, err = call(command, "--help")
  assert code == 0 and not err and command in out


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


@pytest.mark.parametrize(
  ("reason", "words"),
  [
    ("unknown command 'evalute'; did you mean 'evaluate'?", ["evalute"]),
    ("unknown list 'attaks'; did you mean 'attacks'", ["list", "attaks"]),
    ("unexpected argument 'b'; quote a pattern", ["list", "models", "a", "b"]),
    ("unknown bench 'engin'; did you mean 'engine'?", ["bench", "engin"]),
    ("unknown option 'modle'; did you mean 'model'", ["evaluate", "--modle=x"]),
    ("unknown option 'modle'; did you mean 'model'", ["attack", "--modle", "x"]),
    ("unknown option 'network'; did you mean 'networks'", ["run", "--network=x"]),
    ("unknown option 'deep.er'", ["evaluate", "--deep.er=1"]),
    ("unexpected argument 'digits32'; options are written --name=value", ["evaluate", "digits32"]),
    ("no model; pass --model=FOLDER", ["evaluate"]),
    ("no model; pass --model=FOLDER", ["attack"]),
    ("no networks to train", ["run"]),
    ("option --model needs a value", ["evaluate", "--model"]),
    ("option --model needs a value", ["evaluate", "--model", "--n=3"]),
    ("option n takes int, got 'many'", ["evaluate", "--n=many"]),
    ("option n takes int, got '2.5'", ["attack", "--n", "2.5"]),
    ("option quiet takes bool, got '3'", ["evaluate", "--quiet=3"]),
    ("option save_seconds takes float, got 'soon'", ["evaluate", "--config.save_seconds=soon"]),
    ("--config needs a file", ["evaluate", "--config"]),
    ("no config file nowhere.py", ["evaluate", "--config", "nowhere.py"]),
    ("no config file nowhere.py", ["run", "--config=nowhere.py:tiny"]),
    ("no classifier at nowhere: the folder does not exist", ["evaluate", "--model=nowhere", "--out={tmp}"]),
    ("no classifier at nowhere: the folder does not exist", ["attack", "--model=nowhere", "--out={tmp}/a.npz"]),
    ("unknown attack 'pgdd'; did you mean 'pgd'", ["attack", "--model=nowhere", "--attack=pgdd"]),
    ("unknown parameter of attack 'pgd' 'steps'", ["attack", "--model=nowhere", "--options.steps=3"]),
    ("unknown norm 'l3'; did you mean", ["attack", "--model=nowhere", "--options.norm=l3"]),
    ("at least 1 step, got num_steps=0", ["attack", "--model=nowhere", "--options.num_steps=0"]),
    ("unknown dataset 'digit32'; did you mean 'digits32'", ["attack", "--model=nowhere", "--data=digit32"]),
    ("digits32 has 500 examples; cannot take the first 501", ["attack", "--model=nowhere", "--n=501"]),
    ("cannot take the first -1", ["attack", "--model=nowhere", "--n=-1"]),
  ],
)
def test_bad_words_end_with_code_2_and_one_line(reason, words, tmp_path):
  refused(2, reason, *(word.format(tmp=tmp_path) for word in words))


CONFIG = "from ml_collections import ConfigDict\ndef get_config({}):\n  return ConfigDict({})\n"


@pytest.mark.parametrize(
  ("text", "argument", "reason"),
  [
    (CONFIG.format("arg=None", "{'epss': 1}"), "", "'epss'; did you mean 'eps'"),
    (CONFIG.format("", "{}"), ":x", "takes no argument, got 'x'"),
    ("def get_config(:", "", "cannot be read: SyntaxError"),
    ("import no_such_module_at_all", "", "cannot be read: ModuleNotFoundError"),
    ("x = 1", "", "has no get_config(arg=None)"),
    ("def get_config(arg=None):\n  return {'a': 1}[arg]", ":b", "does not know 'b'"),
    pytest.param(CONFIG.format("arg=None", "{'n': 'many'}"), "", "n"),
    pytest.param("def get_config(arg=None):\n  return None", "", "get_config"),
  ],
)
def test_bad_config_files_end_with_code_2_and_one_line(tmp_path, text, argument, reason):
  path = tmp_path / "config.py"
  path.write_text(text)
  refused(2, reason, "evaluate", f"--config={path}{argument}")


def test_overrides_win_over_the_config_file(tmp_path):
  path = tmp_path / "config.py"
  path.write_text(CONFIG.format("arg=None", "{'model': arg, 'out': '/dev/null/x'}"))
  refused(2, "no classifier at other: ", "evaluate", f"--config={path}:one", "--config.model=other")
  refused(2, "no classifier at one: ", "evaluate", f"--config={path}:one")


@pytest.mark.parametrize("command", ["run", "evaluate", "attack"])
def test_an_unwritable_folder_ends_with_code_3_before_any_work(command, tiny, tmp_path):
  (tmp_path / "file").write_text("kept")
  out = tmp_path / "file" / "results"
  model = tiny[0] / "models" / "standard"
  words = {
    "run": ["--config", TINY, "--out", out],
    "evaluate": ["--model", model, "--out", out],
    "attack": ["--model", model, "--out", out / "a.npz"],
  }
  refused(3, f"cannot write results to {out}: ", command, *words[command])
  assert (tmp_path / "file").read_text() == "kept"


def test_a_folder_that_is_no_classifier_is_named(tmp_path):
  refused(2, "classifier.json is missing", "evaluate", "--model", tmp_path, "--out", tmp_path / "r")
  (tmp_path / "classifier.json").write_text('{"arch":')
  refused(3, "is not a classifier's metadata", "evaluate", "--model", tmp_path, "--out", tmp_path / "r")


@pytest.mark.parametrize(
  ("reason", "words"),
  [
    ("eps -1/255 is negative", ["evaluate", "--eps=-1/255"]),
    ("is not a number or a fraction", ["evaluate", "--eps=8:255"]),
    ("unknown suite 'basik'; did you mean 'basic'", ["evaluate", "--suite=basik"]),
    ("unknown norm 'l7'", ["evaluate", "--norm=l7"]),
    ("unknown dataset 'digit32'", ["evaluate", "--data=digit32"]),
    ("digits32 has 500 examples; cannot take the first 501", ["evaluate", "--n=501"]),
    ("batch size must be at least 1", ["evaluate", "--batch_size=-4"]),
    ("eps -1 is negative", ["attack", "--eps", "-1"]),
    ("targets 'previous' are not known", ["attack", "--n=4", "--targets=previous"]),
    ("targets range from 99 to 99", ["attack", "--n=4", "--targets=99"]),
    ("restarts must be at least 1", ["attack", "--n=4", "--restarts=0"]),
    ("unknown loss 'dlrt'; did you mean 'dlr-t'", ["attack", "--n=4", "--options.loss=dlrt"]),
    ("pass eps", ["attack", "--n=4", "--eps="]),
    pytest.param(
      "num_steps",
      ["attack", "--n=4", "--options.num_steps=many"],
    ),
    pytest.param("precision", ["evaluate", "--precision=tall"]),
    pytest.param("seed", ["evaluate", "--seed=-1"]),
  ],
)
def test_bad_values_for_a_good_model_end_with_code_2_and_one_line(reason, words, tiny, tmp_path):
  command, *rest = words
  out = {"evaluate": tmp_path / "results", "attack": tmp_path / "a.npz"}[command]
  refused(2, reason, command, "--model", tiny[0] / "models" / "standard", "--out", out, "--quiet", *rest)
  assert not cells(tmp_path) and not out.is_file()


@pytest.mark.parametrize(
  "words", [["--eps=-1"], ["--suite=basik"], ["--data=digit32"], ["--networks.standard.arch=cnn-tinny"]]
)
def test_a_run_that_cannot_be_evaluated_is_refused_before_it_trains(tmp_path, monkeypatch, words):
  trained = []
  monkeypatch.setattr("jaxrobust.training.loop.train", lambda *args, **options: trained.append(args) or 1 / 0)
  with contextlib.suppress(ZeroDivisionError):
    assert call("run", "--config", TINY, "--out", tmp_path / "run", *words)[0] == 2
  assert not trained


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
    assert f"{100 * robust.mean():.1f}" in out


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
  words = ["--n=32", "--eps=16/255", "--quiet", "--batch_size=16", "--out", tmp_path]
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


@pytest.mark.parametrize("targets", ["", "next"])
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
    "queries": "int32", "correct": "bool", "nan": "int32", "robust": "bool",
  }  # fmt: skip
  assert {name: str(array.dtype) for name, array in arrays.items()} == types
  assert arrays["images"].shape == (20, 32, 32, 3) and all(len(array) == 20 for array in arrays.values())
  assert arrays["images"].min() >= 0 and arrays["images"].max() <= 1
  assert f"{arrays['correct'].mean():.2%} correct, {arrays['robust'].mean():.2%} robust" in text
  assert sorted(path.name for path in out.parent.iterdir()) == ["adversarial.npz"]


def test_an_interrupted_command_ends_with_code_130_and_says_what_is_kept(monkeypatch):
  def interrupt(argv):
    raise KeyboardInterrupt

  monkeypatch.setattr("jaxrobust.cli.list.run", interrupt)
  code, out, err = call("list", "models")
  assert (code, out) == (130, "") and err.startswith("interrupted; finished cells") and err.count("\n") == 1


@pytest.mark.parametrize(("kind", "code"), [("VerificationError", 4), ("StorageError", 3), ("JaxrobustError", 1)])
def test_every_error_carries_its_exit_code(monkeypatch, kind, code):
  from jaxrobust.core import errors

  def fail(argv):
    raise getattr(errors, kind)("the text")

  monkeypatch.setattr("jaxrobust.cli.list.run", fail)
  assert call("list") == (code, "", "error: the text\n")
