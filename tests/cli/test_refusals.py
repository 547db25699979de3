"""Whatever is wrong with a command is said in one line, with the documented exit code, before any work."""

import contextlib

import pytest

from tests.cli.calling import TINY, call, cells, refused


@pytest.mark.parametrize(
  ("reason", "words"),
  [
    ("unknown command 'evalute'; did you mean 'evaluate'?", ["evalute"]),
    ("unknown list 'attaks'; did you mean 'attacks'", ["list", "attaks"]),
    ("unexpected argument 'b'; quote a pattern", ["list", "models", "a", "b"]),
    ("jaxrobust study run takes a study: CONFIG.py:STUDY", ["study", "run"]),
    ("unknown study command 'lst'; did you mean 'list'", ["study", "lst", "x.py"]),
    ("unknown bench 'engin'; did you mean 'engine'?", ["bench", "engin"]),
    ("unknown option 'modle'; did you mean 'model'", ["evaluate", "--modle=x"]),
    ("unknown option 'modle'; did you mean 'model'", ["attack", "--modle", "x"]),
    ("unknown option 'network'; did you mean 'networks'", ["run", "--network=x"]),
    ("unknown option 'deep.er'", ["evaluate", "--deep.er=1"]),
    ("unexpected argument 'digits32'; options are written --name=value", ["evaluate", "digits32"]),
    ("no model; pass --model=FOLDER", ["evaluate"]),
    ("or --model=NAME of `jaxrobust list zoo`", ["attack"]),
    ("no networks to train; pass --config=local", ["run"]),
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
    ("unknown parameter of attack 'pgd' 'stepsize'", ["attack", "--model=nowhere", "--options.stepsize=3"]),
    ("unknown norm 'l3'; did you mean", ["attack", "--model=nowhere", "--options.norm=l3"]),
    ("num_steps must be an integer of at least 1, got 0", ["attack", "--model=nowhere", "--options.num_steps=0"]),
    ("random_start must be true or false, got 'maybe'", ["attack", "--model=nowhere", "--options.random_start=maybe"]),
    ("unknown dataset 'digit32'; did you mean 'digits32'", ["attack", "--model=nowhere", "--data=digit32"]),
    ("digits32 has 500 examples; cannot take the first 501", ["attack", "--model=nowhere", "--n=501"]),
    ("cannot take the first -1", ["attack", "--model=nowhere", "--n=-1"]),
  ],
)
def test_bad_words_end_with_code_2_and_one_line(reason, words, tmp_path):
  refused(2, reason, *(word.format(tmp=tmp_path) for word in words))


@pytest.mark.parametrize("command", ["attack", "evaluate", "transfer", "train", "run"])
@pytest.mark.parametrize("seed", ["-1", "9223372036854775808", "99999999999999999999"])
def test_seeds_that_no_key_can_hold_are_refused_by_every_command(command, seed):
  refused(2, f"the seed must be at least 0 and below 2**63, got {seed}", command, "--seed", seed)


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


def test_an_attack_whose_file_is_a_folder_is_refused_before_any_work(tmp_path):
  words = ["attack", "--model=nowhere", "--out", tmp_path]
  refused(3, f"cannot write {tmp_path}: it is a folder; name a file in it", *words)


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
    ("'AutoAttack' is an attack, no suite: --suite=cascade --stages=autoattack", ["evaluate", "--suite=AutoAttack"]),
    ("unknown norm 'l7'", ["evaluate", "--norm=l7"]),
    ("unknown dataset 'digit32'", ["evaluate", "--data=digit32"]),
    ("digits32 has 500 examples; cannot take the first 501", ["evaluate", "--n=501"]),
    ("batch size must be at least 1", ["evaluate", "--batch_size=-4"]),
    ("eps -1 is negative", ["attack", "--eps", "-1"]),
    ("targets 'previous' are not known", ["attack", "--n=4", "--targets=previous"]),
    ("targets range from 99 to 99", ["attack", "--n=4", "--targets=99"]),
    ("restarts must be at least 1", ["attack", "--n=4", "--restarts=0"]),
    ("unknown loss 'dlrt'; did you mean 'dlr-t'", ["attack", "--n=4", "--options.loss=dlrt"]),
    pytest.param(
      "num_steps",
      ["attack", "--n=4", "--options.num_steps=many"],
    ),
    pytest.param("precision", ["evaluate", "--precision=tall"]),
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
