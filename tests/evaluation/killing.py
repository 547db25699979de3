"""How the scripts beside this one die: as by kill -9, right after their k-th partial save."""

from __future__ import annotations

import os
import signal

from jaxrobust.evaluation import runner


def die_after_saves() -> None:
  """With KILL_AFTER=k in the environment this process kills itself after its k-th partial save."""
  kill_after, saves, save = int(os.environ.get("KILL_AFTER", "0")), 0, runner.save_partial

  def save_and_die(*args: object) -> None:
    nonlocal saves
    save(*args)  # type: ignore[arg-type]
    saves += 1
    if saves == kill_after:
      os.kill(os.getpid(), signal.SIGKILL)

  runner.save_partial = save_and_die  # type: ignore[assignment]
