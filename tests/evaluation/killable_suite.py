"""Run by test_suites_slow in processes of its own: a whole suite, saving its state all the time.

With KILL_AFTER=k the process kills itself, as kill -9 would, right after its k-th partial save.
"""

from __future__ import annotations

import sys

from jaxrobust.core.compilation import enable_compilation_cache


def main(out: str, suite: str) -> None:
  enable_compilation_cache()
  from jaxrobust.engine.options import EngineOptions
  from jaxrobust.evaluation.evaluate import evaluate
  from jaxrobust.evaluation.job import RunOptions
  from jaxrobust.evaluation.suites.summary import summarize_suite, write_summary
  from tests.evaluation.digits_model import digits_classifier
  from tests.evaluation.killing import die_after_saves

  die_after_saves()
  options = RunOptions(EngineOptions.for_platform(8), save_seconds=0.0, quiet=True, save_images=2)
  report = evaluate(digits_classifier(), "digits32", suite, n=20, name="means", out=out, options=options)
  write_summary(out, report, summarize_suite(report))


if __name__ == "__main__":
  main(*sys.argv[1:])
