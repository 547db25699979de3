"""Run by test_nas_run in processes of its own: the command, which kills itself as kill -9 would.

With KILL_AFTER=k right after its k-th partial save of an evaluation, with KILL_TRAINING=k after its k-th training step.
"""

from __future__ import annotations

import os
import signal
import sys

from jaxrobust.cli.main import main
from jaxrobust.nas import trainer
from tests.evaluation.killing import die_after_saves


def die_in_training() -> None:
  kill_after, look, seen = int(os.environ.get("KILL_TRAINING", "0")), trainer.make_step, 0

  def make_step(*args: object) -> object:
    step = look(*args)  # type: ignore[arg-type]

    def step_and_die(*rows: object) -> object:
      nonlocal seen
      seen += 1
      if seen == kill_after:
        os.kill(os.getpid(), signal.SIGKILL)
      return step(*rows)

    return step_and_die

  trainer.make_step = make_step  # type: ignore[assignment]


if __name__ == "__main__":
  die_after_saves()
  die_in_training()
  sys.exit(main(sys.argv[1:]))
