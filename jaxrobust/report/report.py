"""`write_report`: everything a results folder says, as a page, tables and plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jaxrobust.report.boards import make_boards
from jaxrobust.report.cell_rows import read_cell_rows
from jaxrobust.report.site import write_site
from jaxrobust.report.studies import find_studies, study_document, write_studies
from jaxrobust.report.tables import write_tables
from jaxrobust.results.folder import join_folders


@dataclass(frozen=True)
class Written:
  """Says where a report is and what it holds."""

  page: Path
  models: int
  cells: int
  boards: int
  problems: tuple[str, ...]
  plots: int


def write_report(root: str | Path, out: str | Path, *, also: Sequence[str | Path] = (), plots: bool = False) -> Written:
  """Reads the cells of a folder or address and writes the page, the tables and, if asked for, the plots.

  Args:
    root: the results folder, the folder of a study, or an address that fsspec knows.
    out: the folder of the report.
    also: further results folders on this machine, shown beside the first.
    plots: also draw publication plots, which takes matplotlib.
  """
  folder, out = join_folders(root, also), Path(out)
  found = read_cell_rows(folder)
  models, boards = found.by_model(), make_boards(found.rows)
  studies = find_studies([root, *also], found.problems)
  page = write_site(folder, models, boards, [study_document(study) for study in studies], found.problems, out)
  write_tables(boards, out / "tables")
  write_studies(studies, out / "tables")
  drawn = 0
  if plots:
    from jaxrobust.report.plots import write_plots

    drawn = write_plots(models, boards, out / "plots")
  return Written(page, len(models), len(found.rows), len(boards), tuple(found.problems), drawn)
