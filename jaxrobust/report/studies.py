"""Studies in a report: every technique beside its baseline, mean and spread over the runs, and what it gains.

A folder that `jaxrobust study` made, or its results, gets a view of its own on the page, and the same table as
Markdown, CSV and LaTeX.
"""

from __future__ import annotations

import csv
import io
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxrobust.core.errors import JaxrobustError
from jaxrobust.core.terminal import csv_text
from jaxrobust.evaluation.studies.evaluator import RESULTS_FOLDER
from jaxrobust.evaluation.studies.rows import HELD_OUT, METRICS, STUDY_FILE, read_index, study_rows
from jaxrobust.report.formats import latex_table, latex_text, markdown_table, markdown_text
from jaxrobust.report.plots import COLORS, label, plotting, save_figure
from jaxrobust.report.site import write_if_new
from jaxrobust.results.cell import safe_name

TITLES = {"clean": "clean", "pgd-20": "PGD-20", "mm5": "MM5", "corruptions": "corruptions"}
HEAD = ("technique", "against", "runs", *(TITLES[name] for name in METRICS), "training s")

Rows = Sequence[Mapping[str, Any]]
"""The value of `study_rows`."""


class Study(NamedTuple):
  """A study's name and its rows."""

  name: str
  rows: Rows


def find_studies(roots: Sequence[str | os.PathLike], problems: list[str]) -> list[Study]:
  """Returns the studies that local folders are, or are the results of; those that cannot be read become problems."""
  found: dict[Path, Study] = {}
  for root in map(Path, roots):
    folder = root.parent if root.name == RESULTS_FOLDER else root
    if folder in found or not (folder / STUDY_FILE).is_file():
      continue
    try:
      found[folder] = Study(str(read_index(folder)["study"]), study_rows(folder))
    except (JaxrobustError, ValueError, TypeError, KeyError, AttributeError) as error:
      problems.append(f"{folder / STUDY_FILE}: {error}")
  return list(found.values())


def write_studies(studies: Sequence[Study], out: Path) -> None:
  """Writes each study as a table in three formats."""
  for study in studies:
    name = safe_name(f"study-{study.name}")
    for kind, text in (("md", study_table(study.rows)), ("csv", _as_csv(study)), ("tex", _as_latex(study))):
      write_if_new(out / f"{name}.{kind}", text.encode("utf-8", "replace"))


def study_table(rows: Rows) -> str:
  """Writes rows as Markdown: per cent, mean ± standard deviation over runs, the gain over the opponent in brackets."""
  texts = [[markdown_text(text) for text in (row["group"], row["against"] or "-")] for row in rows]
  return markdown_table(HEAD, [[*text, *_numbers(row)] for text, row in zip(texts, rows, strict=True)], left=2)


def _as_latex(study: Study) -> str:
  minus = lambda text: text.replace("(-", "($-$")
  rows = [
    [latex_text(row["group"]), latex_text(row["against"] or "-"), *map(minus, _numbers(row))] for row in study.rows
  ]
  comment = f"Accuracy in per cent, mean and deviation over runs, gain in brackets: {latex_text(study.name)}"
  return latex_table(comment, HEAD, rows, left=2)


def _as_csv(study: Study) -> str:
  """Returns one line per number, in full precision."""
  buffer = io.StringIO()
  writer = csv.writer(buffer, lineterminator="\n")
  writer.writerow(["study", "technique", "against", "runs", "metric", "mean", "deviation", "gain"])
  for row in study.rows:
    for name in METRICS:
      if row["metrics"][name] is not None:
        gain = row["gain"][name]
        texts = [csv_text(text) for text in (study.name, row["group"], row["against"])]
        (mean, deviation), runs = row["metrics"][name], len(row["runs"])
        numbers = [repr(mean), repr(deviation) if runs > 1 else "", "" if gain is None else repr(gain)]
        writer.writerow([*texts, runs, name, *numbers])
  return buffer.getvalue()


def _numbers(row: Mapping[str, Any]) -> list[str]:
  """Returns the columns after the names."""
  count = len(row["runs"])
  values = [_percent(row["metrics"][name], row["gain"][name], count) for name in METRICS]
  return [str(count), *values, "-" if row["seconds"] is None else f"{row['seconds'][0]:.0f}"]


def _percent(value: tuple[float, float] | None, gain: float | None, runs: int) -> str:
  """Returns a single run says nothing of its spread.

  >>> _percent((0.5, 0.0), 0.02, runs=1), _percent((0.5, 0.013), None, runs=3)
  ('50.0 (+2.0)', '50.0 ± 1.3')
  """
  if value is None:
    return "-"
  text = f"{100 * value[0]:.1f}" + (f" ± {100 * value[1]:.1f}" if runs > 1 else "")
  return text if gain is None else f"{text} ({100 * gain:+.1f})"


def study_document(study: Study) -> dict[str, Any]:
  """Returns a study as the page reads it: per cent; [mean, deviation or null, gain or null] for each number."""

  def number(row: Mapping[str, Any], name: str) -> list[float | None] | None:
    value, gain = row["metrics"][name], row["gain"][name]
    if value is None:
      return None
    spread = round(100 * value[1], 4) if len(row["runs"]) > 1 else None
    return [round(100 * value[0], 4), spread, None if gain is None else round(100 * gain, 4)]

  rows = [
    {
      "group": row["group"],
      "against": row["against"],
      "runs": len(row["runs"]),
      "numbers": [number(row, name) for name in METRICS],
      "seconds": None if row["seconds"] is None else round(row["seconds"][0], 1),
    }
    for row in study.rows
  ]
  epochs = {name: [{"name": group, "points": points} for group, points in curves] for name, curves in _epochs(study)}
  return {"name": study.name, "columns": [TITLES[name] for name in METRICS], "rows": rows, "epochs": epochs}


def _epochs(study: Study) -> Iterator[tuple[str, list[tuple[str, list[list[float]]]]]]:
  """Yields held-out accuracy over epochs in per cent, of the groups with at least two epochs."""
  for name in HELD_OUT:
    curves = [(row["group"], [[x, round(100 * y, 2)] for x, y in row["epochs"][name]]) for row in study.rows]
    if curves := [(group, points) for group, points in curves if len(points) > 1]:
      yield name, curves


def write_study_plots(studies: Sequence[Study], out: Path) -> int:
  """Draws held-out accuracy over epochs, a figure per study and kind of accuracy; returns how many."""
  drawn = 0
  with plotting() as plt:
    for study in studies:
      for name, curves in _epochs(study):
        figure, axes = plt.subplots(figsize=(5.2, 3.6))
        for color, (group, points) in zip(itertools.cycle(COLORS), curves, strict=False):
          axes.plot(*zip(*points, strict=True), color=color, label=label(group))
        axes.set_xlabel("epoch")
        axes.set_ylabel(f"{name} accuracy on held-out examples, %")
        axes.set_title(label(study.name, 60))
        axes.legend(frameon=False, fontsize=7)
        save_figure(figure, out / safe_name(f"epochs-{study.name}-{name}"))
        plt.close(figure)
        drawn += 1
  return drawn
