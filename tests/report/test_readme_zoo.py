"""The README's table of shipped networks and the page come from the same cells."""

import re
from pathlib import Path

from jaxrobust.report.boards import make_boards
from jaxrobust.report.cell_rows import read_cell_rows
from jaxrobust.results.folder import join_folders

PROJECT = Path(__file__).parents[2]
COLUMNS = {"clean": "Clean", "PGD-20": "PGD-20", "MM5": "MM5", "AutoAttack": "AutoAttack"}


def test_readme_says_what_the_shipped_cells_say():
  folders = sorted((PROJECT / "jaxrobust" / "models" / "shipped").glob("*/cells"))
  (board,) = make_boards(read_cell_rows(join_folders(folders[0], folders[1:])).rows)
  labels = [column.label for column in board.columns]
  text = (PROJECT / "README.md").read_text()
  head, *rows = re.findall(r"^\| `(cifar10-resnet20-…|[a-z-]+)` \| [^|]+ \| (.+) \|$", text, re.MULTILINE)[:9]
  names = head[1].split(" | ")
  assert names == list(COLUMNS) and len(rows) == len(board.rows) == 8
  for model, cells in rows:
    for name, shown in zip(names, cells.split(" |"), strict=True):
      number = board.rows[f"cifar10-resnet20-{model}"][labels.index(COLUMNS[name])]
      assert (number is None) == (not shown.strip()), (model, name)
      if number is not None:
        assert f"{100 * number.value:.1f}" == shown.split()[0], (model, name)
        assert (number.n == 1000) == ("first" not in shown), (model, name)
