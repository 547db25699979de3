"""Run by test_runner in processes of its own: evaluates a fixed classifier, saving its state all the time.

With KILL_AFTER=k the process kills itself, as kill -9 would, right after its k-th partial save.
"""

from __future__ import annotations

import os
import sys

from jaxrobust.core.compilation import enable_compilation_cache


def main(out: str) -> None:
  enable_compilation_cache()
  from jaxrobust import testing
  from jaxrobust.attacks.registry import make_attack
  from jaxrobust.attacks.schedule import Cascade, Stage
  from jaxrobust.core.distributed import process_share
  from jaxrobust.data.source import ArraySource
  from jaxrobust.engine.options import EngineOptions
  from jaxrobust.evaluation.evaluate import evaluate
  from jaxrobust.evaluation.job import RunOptions
  from jaxrobust.evaluation.suites import attack_entry, clean_entry, entry_of
  from tests.evaluation.killing import die_after_saves

  die_after_saves()
  process, processes = process_share("JAX_NUM_PROCESSES" in os.environ)
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 60)
  labels[::7] = (labels[::7] + 1) % testing.CLASSES
  cascade = Cascade((Stage(make_attack("fgsm")), Stage(make_attack("pgd", num_steps=9))), name="two")
  entries = [clean_entry(), attack_entry("pgd", "0.015", num_steps=9), entry_of(cascade, "0.015")]
  options = RunOptions(
    EngineOptions.for_platform(8), save_seconds=0.0, quiet=True, process=process, processes=processes
  )
  data = ArraySource("made", images, labels, testing.CLASSES)
  report = evaluate(classifier, data, entries, name="fixture", out=out, options=options)
  print({title: result.summary["robust"] for title, result in zip(report.titles, report.results, strict=True)})


if __name__ == "__main__":
  main(sys.argv[1])
