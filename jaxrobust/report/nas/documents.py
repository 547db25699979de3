"""Data sets of cells and studies of supernets in a report: their figures as files, and what the page shows of them.

A folder that `jaxrobust nas run` or `jaxrobust nas supernet` made, or one in the layout of the NAS robustness data set,
gets a place in the view of architectures; a file `measures.jsonl` in it is what `jaxrobust nas measure` wrote.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxrobust.analysis.supernets import factor_effects
from jaxrobust.core.errors import InputError, JaxrobustError
from jaxrobust.evaluation.nas.dataset import DATASET_FOLDER
from jaxrobust.evaluation.nas.measured import read_rows as read_measures
from jaxrobust.nas.supernets.run import STUDY, read_rows
from jaxrobust.nas.supernets.study import StudyRow
from jaxrobust.nas.table import SUFFIX, data_sets, load_table
from jaxrobust.report.nas.drawing import CellData
from jaxrobust.report.nas.figures import Drawn, files_of, write_across, write_nas_figures
from jaxrobust.report.nas.matrices import read_confidences, read_confusions
from jaxrobust.report.nas.supernets import draw_factors
from jaxrobust.report.plots import KINDS
from jaxrobust.report.trend_tables import Sheet, write_sheets
from jaxrobust.results.cell import safe_name

FOLDER, ACROSS, MEASURES = "architectures", "across data sets", "measures.jsonl"
DIGITS, MOST_ROWS = 4, 120


def write_cell_figures(
  folder: Path, names: Sequence[str], out: Path, objective: str = "clean", measures: Sequence[Mapping[str, Any]] = ()
) -> dict[str, list[Drawn]]:
  """Draws the figures of some data sets of a folder, each in a folder of its own, and what they say of each other.

  Args:
    folder: with `meta.json`.
    names: of data sets in it.
    out: folder for the files.
    objective: that searches look for.
    measures: rows of `nas measure`.

  Returns:
    What was drawn by data set, and `ACROSS` all of them.
  """
  found = {}
  tables = [load_table(folder, name) for name in names]
  for name, table in zip(names, tables, strict=True):
    confused, confident = read_confusions(folder, name), read_confidences(folder, name)
    found[name] = write_nas_figures(CellData(table, objective, confused, confident, measures), out / safe_name(name))
  across = write_across(tables, out)
  return {**found, ACROSS: across} if across else found


def study_names(folders: Sequence[str | os.PathLike]) -> list[str]:
  """Names studies of supernets by the last parts of their folders, as many as tell them apart.

  >>> study_names(["supernets/basic", "mobile"]), study_names(["a/basic", "b/basic"])
  (['basic', 'mobile'], ['a/basic', 'b/basic'])
  """
  parts, last = [Path(folder).resolve().parts for folder in folders], 1
  while len({each[-last:] for each in parts}) < len(set(parts)):
    last += 1
  return ["/".join(each[-last:]) for each in parts]


def write_factors(studies: Mapping[str, Sequence[StudyRow]], title: str, out: Path) -> Drawn:
  """Draws and tabulates what the factors of supernets' subnets do.

  Args:
    studies: rows by supernet.
    title: of the table.
    out: folder for `factors` with each kind behind.

  Returns:
    The correlations, a row for each supernet, factor and accuracy.
  """
  rows = [{"supernet": name, **effect._asdict()} for name, found in studies.items() for effect in factor_effects(found)]
  write_sheets([Sheet("factors", title, rows, ("supernet", "group", "factor", "target", "r", "subnets"))], out)
  draw_factors(studies, out / "factors")
  return Drawn("factors", title, "RobustART's 4", rows)


def architecture_documents(roots: Sequence[str | os.PathLike], out: Path, problems: list[str]) -> list[dict[str, Any]]:
  """Draws what local folders hold of cells and supernets, and returns it as the page reads it.

  Args:
    roots: folders of a report.
    out: the folder of the report.
    problems: gets what cannot be read.

  Returns:
    A document for each data set and for all supernets together.
  """
  documents: list[dict[str, Any]] = []
  studies: dict[Path, list[StudyRow]] = {}
  for root in map(Path, roots):
    try:
      for folder in (root, *sorted((root / DATASET_FOLDER).glob("*"))):
        names = data_sets(folder)
        place = f"{FOLDER}/{len(documents)}"
        measured = read_measures(root / MEASURES) if names and (root / MEASURES).is_file() else []
        drawn = write_cell_figures(folder, names, out / place, measures=measured) if names else {}
        for name, figures in drawn.items():
          below = place if name == ACROSS else f"{place}/{safe_name(name)}"
          documents.append(_document(f"{folder.name}, {name}", below, figures))
      if (root / STUDY).is_file():
        studies[root] = read_rows(root)
    except (JaxrobustError, ValueError, KeyError, TypeError) as error:
      problems.append(str(error) if isinstance(error, JaxrobustError) else f"{root}: {error}")
  judged = {folder: rows for folder, rows in studies.items() if rows}
  if judged:
    place = f"{FOLDER}/supernets"
    title = "Pearson's r of factors and accuracies of subnets"
    named = dict(zip(study_names([*judged]), judged.values(), strict=True))
    documents.append(_document("supernets", place, [write_factors(named, title, out / place)]))
  return documents


def _document(name: str, place: str, figures: Sequence[Drawn]) -> dict[str, Any]:
  return {"name": name, "place": place, "figures": [_figure(figure) for figure in figures]}


def _figure(drawn: Drawn) -> dict[str, Any]:
  columns = list(drawn.rows[0]) if drawn.rows else []
  rows = [[_plain(row[column]) for column in columns] for row in drawn.rows[:MOST_ROWS]]
  about = {
    "name": drawn.name,
    "title": drawn.title,
    "paper": drawn.paper,
    "files": files_of(drawn),
    "picture": KINDS[0],
  }
  return {**about, "columns": columns, "rows": rows, "of": len(drawn.rows)}


def _plain(value: Any) -> Any:
  if isinstance(value, float):
    return round(value, DIGITS) if math.isfinite(value) else None
  return value


def chosen_sets(folder: Path, text: str) -> list[str]:
  """Reads which data sets of a folder are asked for: names with commas between them, or empty for all there are."""
  names = [name for name in text.split(",") if name] or data_sets(folder)
  if not names:
    raise InputError(f"no data set of cells in {folder}: it has no meta.json, or no DATA/clean{SUFFIX} beside it")
  return names
