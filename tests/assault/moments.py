"""Run by test_moments as a command of its own: asks itself to stop at a chosen moment, and goes on from there.

`python -m tests.assault.moments MOMENT WORDS…` is `jaxrobust WORDS…` with a SIGTERM at the first such moment.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any


def stop() -> None:
  os.kill(os.getpid(), signal.SIGTERM)


def before(owner: Any, name: str) -> None:
  """A SIGTERM as a function is called for the first time."""
  original: Callable[..., Any] = getattr(owner, name)
  calls = []

  def asked(*args: Any, **options: Any) -> Any:
    calls.append(name)
    if len(calls) == 1:
      stop()
    return original(*args, **options)

  setattr(owner, name, asked)


def arrange(moment: str) -> None:
  """Prepares the moment."""
  if moment == "compilation":
    import jax

    seen = []

    def listener(event: str, *_: Any, **__: Any) -> None:
      # A program has been lowered: the compiler has it next.
      if event == "/jax/core/compile/jaxpr_to_mlir_module_duration" and not seen:
        seen.append(event)
        stop()

    jax.monitoring.register_event_duration_secs_listener(listener)
  elif moment == "exchange":
    from jaxrobust.engine.device import Device

    before(Device, "exchange")
  elif moment == "checkpoint":
    from jaxrobust.training.checkpoints import Checkpoints

    before(Checkpoints, "save")
  elif moment == "merging":
    from jaxrobust.results import shards

    before(shards, "merge_shards")
  elif moment == "cell":
    from jaxrobust.evaluation import runner

    before(runner, "save_result")
  else:
    raise SystemExit(f"no moment {moment!r}")


if __name__ == "__main__":
  # As the command itself does, before anything else.
  signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
  moment, sys.argv = sys.argv[1], ["jaxrobust", *sys.argv[2:]]
  os.environ.setdefault("GLIBC_TUNABLES", "glibc.malloc.hugetlb=0")  # It would start itself anew, without the moment.
  from jaxrobust.cli.machine import prepare
  from jaxrobust.core.stopping import watch_signals

  watch_signals()
  prepare(sys.argv[1:])  # JAX, which the moments import, asks for the number of devices but once.
  arrange(moment)
  from jaxrobust.cli.main import main

  sys.exit(main())
