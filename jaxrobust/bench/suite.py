"""A whole suite against the sum of its cells computed alone: no clean pass, program or data set twice."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

from jaxrobust.bench.rows import Row, alternate
from jaxrobust.bench.workloads import Workload, workload
from jaxrobust.engine.options import EngineOptions
from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.suites.report import Report
from jaxrobust.evaluation.suites.suite import Setting, make_suite, title_of

EPS = "2/255"
SUITES = ("nas-cell,small", "oodrb,small")


def run(n: int = 256, repeats: int = 2) -> Iterator[Row]:
  """Measures two suites in their small forms on the first n images: one over attacks, one over corruptions."""
  work = workload("resnet20", n)
  yield from (_compare(work, suite, repeats) for suite in SUITES)


def _compare(work: Workload, suite: str, repeats: int) -> Row:
  options = RunOptions(EngineOptions.for_platform(), quiet=True)

  def together(only: str | None = None) -> Report:
    with tempfile.TemporaryDirectory() as out:
      data = work.images, work.labels
      return evaluate(work.classifier, data, suite, eps=EPS, out=out, options=options, only=only)

  whole = make_suite(suite, Setting.of("arrays", None, EPS))
  titles = [title_of(part, entry) for part in whole.parts for entry in part.entries]

  def alone() -> list[Report]:
    return [together(title) for title in dict.fromkeys(titles)]

  together(), alone()  # Compiles.
  times, results = alternate({"suite": together, "alone": alone}, repeats)
  cells = len(results["suite"].results)
  return Row(
    f"{work.name}, {suite}: {cells} cells, time over the sum of its cells alone",
    times["suite"] / times["alone"],
    "fraction",
    "each cell alone",
    None,
    times["alone"] / times["suite"],
  )
