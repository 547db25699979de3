"""Images of no class have no accuracy, so their data set is no leaderboard."""

import numpy as np

from jaxrobust.evaluation.metrics.proportions import proportion
from jaxrobust.report.boards import make_boards
from jaxrobust.report.cell_rows import CellRow
from jaxrobust.results.cell import Cell


def row(data: str, judged: str) -> CellRow:
  flags = np.array([True, False])
  cell = Cell(model="net", data=data, n=2)
  return CellRow(cell, "path", proportion(flags), np.packbits(flags), None, None, None, {}, None, judged=judged)


def test_a_set_of_outliers_is_no_leaderboard():
  boards = make_boards([row("imagenet", ""), row("imagenet-a", "among 200 of the classes"),
                        row("imagenet-o", "among 200 of the classes, outliers, of no class")])  # fmt: skip
  assert {board.data for board in boards} == {"imagenet", "imagenet-a"}
