"""Run by test_transfer in a process of its own: transfer between two networks, killed after some turns if told to."""

from __future__ import annotations

import os
import signal
import sys

import jax

from jaxrobust.core.compilation import enable_compilation_cache
from jaxrobust.data.registry import load_data
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.scheduler import Engine
from jaxrobust.evaluation.context import ModelContext
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.suites import attack_entry
from jaxrobust.evaluation.transfer import TransferSpec, run_transfer
from tests.evaluation.digits_model import digits_classifier


def main() -> None:
  enable_compilation_cache()
  kill_after = int(os.environ.get("KILL_AFTER", "0"))
  turn, turns = Engine.turn, iter(range(1, 10**9))

  def counted(self) -> bool:
    going = turn(self)
    if next(turns) == kill_after:
      os.kill(os.getpid(), signal.SIGKILL)
    return going

  Engine.turn = counted
  models = {"a": ModelContext(digits_classifier(1)), "b": ModelContext(digits_classifier(7))}
  spec = TransferSpec(attack_entry("pgd", "48/255", num_steps=4), stops=(1, 2, 4))
  options = RunOptions(EngineOptions.for_platform(8), quiet=True, save_seconds=0.0)
  run_transfer(models, load_data("digits32").subset(40), spec, sys.argv[1], options)
  print(jax.local_device_count())


if __name__ == "__main__":
  main()
