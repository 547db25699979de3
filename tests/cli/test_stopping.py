"""A command that is asked to stop ends with code 75, says so in one line, and goes on when it is run again."""

import os
import signal

import pytest

from jaxrobust.engine.scheduler import Engine
from jaxrobust.evaluation import evaluate
from tests.cli.calling import call, cells

STOPS = {
  "before the first cell": ("evaluate", evaluate, "find_jobs", "asked to stop; what was finished is kept"),
  "inside a cell": ("evaluate", Engine, "turn", "error: asked to stop at"),
  "while images are made": ("transfer", Engine, "turn", "error: asked to stop at"),
}


@pytest.mark.parametrize("kind", STOPS)
def test_a_command_that_is_asked_to_stop_goes_on_later(tiny, tmp_path, monkeypatch, kind):
  command, owner, name, reason = STOPS[kind]
  models = [tiny[0] / "models" / each for each in ("standard", "pgd-at")]
  words = {"evaluate": ["--model", models[0], "--suite=basic", "--quiet"], "transfer": ["--models", *models]}[command]
  words = [command, *words, "--n=16", "--eps=16/255", "--out", tmp_path]
  original = getattr(owner, name)

  def stopped(*args):
    os.kill(os.getpid(), signal.SIGTERM)
    return original(*args)

  before = signal.getsignal(signal.SIGTERM)
  with monkeypatch.context() as patch:
    patch.setattr(owner, name, stopped)
    code, out, err = call(*words)
  assert (code, out, err.count("\n")) == (75, "", 1) and err.startswith(reason), err
  assert err.endswith("run the same command to go on\n") and not cells(tmp_path)
  assert signal.getsignal(signal.SIGTERM) is before
  assert call(*words)[0] == 0 and len(cells(tmp_path)) >= 3
