"""`write_report`: everything a results folder says, as a page, tables and plots."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxrobust.analysis.sizes import with_flops
from jaxrobust.analysis.zoo_cells import last_change
from jaxrobust.report.boards import make_boards
from jaxrobust.report.cell_rows import CellRow, read_cell_rows
from jaxrobust.report.documents import about_model
from jaxrobust.report.site import write_site
from jaxrobust.report.studies import find_studies, study_document, write_studies, write_study_plots
from jaxrobust.report.suite_boards import SuiteBoard, make_suite_boards
from jaxrobust.report.suite_documents import suite_documents
from jaxrobust.report.suite_tables import write_suite_tables
from jaxrobust.report.table_summaries import table_summaries
from jaxrobust.report.tables import write_tables
from jaxrobust.report.writers import only_writer
from jaxrobust.report.zoo_documents import ZooReport, find_zoos, table_zoos, write_zoos, zoo_documents
from jaxrobust.results.folder import Folder, LocalFolder, join_folders
from jaxrobust.results.metrics import SummaryFile, read_summaries


@dataclass(frozen=True)
class Written:
  """Says where a report is and what it holds."""

  page: Path
  models: int
  cells: int
  boards: int
  suites: int
  zoos: int
  problems: tuple[str, ...]
  plots: int


def write_report(
  root: str | Path | None,
  out: str | Path,
  *,
  also: Sequence[str | Path] = (),
  tables: Sequence[str | Path] = (),
  plots: bool = False,
  url: str = "",
) -> Written:
  """Reads the cells of a folder or address and writes the page, the tables and, if asked for, the plots.

  Args:
    root: the results folder, the folder of a study, or an address that fsspec knows; None where there are tables alone.
    out: the folder of the report.
    also: further results folders on this machine, shown beside the first.
    tables: CSV files of models, such as leaderboards, whose OOD trends are shown too.
    plots: also draw publication plots and the picture of shared links, which takes matplotlib.
    url: where the page will be published, for the picture of shared links.
  """
  out, roots = Path(out), [*([] if root is None else [root]), *also]
  folder = join_folders(roots[0], roots[1:]) if roots else None
  boards = table_zoos(tables)
  with only_writer(out, [*map(str, roots), *map(str, tables)]) as replaced:
    # The page's own folder holds no cells.
    written = _write(folder or LocalFolder(out), roots, boards, out, plots, url)
  return dataclasses.replace(written, problems=(*replaced, *written.problems))


def _write(
  folder: Folder, roots: Sequence[str | Path], tables: Sequence[ZooReport], out: Path, plots: bool, url: str
) -> Written:
  found = read_cell_rows(folder)
  models, boards = found.by_model(), make_boards(found.rows)
  studies = find_studies(roots, found.problems)
  refuse = lambda path, reason: found.problems.append(f"{folder.show(path)}: {reason}")
  summaries = list(read_summaries(folder, refuse))
  suites = suite_boards(folder, models, summaries, found.problems)
  zoos = [*(find_zoos(found.rows, summaries, last_change(roots[0])) if roots else ()), *tables]
  order = {model: index for index, model in enumerate(models)}
  more: dict[str, Sequence[Mapping[str, Any]]] = {
    "studies": [study_document(study) for study in studies],
    "suites": suite_documents(suites, order),
    "zoos": zoo_documents(zoos, order),
  }
  if plots:
    from jaxrobust.report.card import write_card

    write_card(boards, len(models), out)
    from jaxrobust.report.nas.documents import architecture_documents

    more["architectures"] = architecture_documents(roots, out, found.problems)
  page = write_site(folder, models, boards, more, found.problems, out, url)
  write_tables(boards, out / "tables")
  write_studies(studies, out / "tables")
  write_suite_tables(suites, out / "tables")
  drawn = write_zoos(zoos, out / "trends", plots)
  if plots:
    from jaxrobust.report.plots import write_plots
    from jaxrobust.report.suite_plots import write_suite_plots

    drawn += write_plots(models, boards, out / "plots") + write_suite_plots(suites, out / "plots")
    drawn += write_study_plots(studies, out / "plots")
    drawn += sum(len(one["figures"]) for one in more["architectures"])
  counts = {"boards": len(boards), "suites": len(suites), "zoos": len(zoos), "plots": drawn}
  return Written(page, len(models), len(found.rows), problems=tuple(found.problems), **counts)


def suite_boards(
  folder: Folder, models: Mapping[str, Sequence[CellRow]], summaries: Sequence[SummaryFile], problems: list[str]
) -> list[SuiteBoard]:
  """Returns the boards of suites and of tables of many models."""
  about = {model: about_model(rows) for model, rows in models.items()}
  boards = make_suite_boards(summaries, about)
  if any(len(board.rows) > 1 for board in boards):  # Only then is there anything to draw over sizes.
    shown = {model for board in boards for model in board.rows}
    boards = make_suite_boards(summaries, about | with_flops({m: about[m] for m in about if m in shown}))
  return [*boards, *make_suite_boards(table_summaries(folder, problems))]
