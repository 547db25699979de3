"""Defended models as the page shows them: what an adaptive attack leaves of them beside what an oblivious one would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jaxrobust.report.cell_rows import CellRow
from jaxrobust.report.documents import in_percent
from jaxrobust.results.ids import bare_attack

# Columns of the page, and the row of each: how the attack ignores the defense.
WAYS: tuple[str | None, ...] = (None, "gradient", "images")


def defense_documents(models: Mapping[str, Sequence[CellRow]]) -> list[dict[str, Any]]:
  """Returns a table for each data set, attack and budget that some model was attacked by obliviously.

  Rows are [model, clean, adaptive, by the naive gradient, by images made without the defense], None for what was not
  run. Nothing here is ranked: an oblivious number says nothing of how robust a model is.
  """
  order = {model: index for index, model in enumerate(models)}
  found: dict[tuple[str, str], dict[str, dict[str | None, CellRow]]] = {}
  clean: dict[tuple[str, str], CellRow] = {}
  for model, rows in models.items():
    for row in rows:
      cell = row.cell
      if cell.condition != "clean" or row.source:
        continue
      if cell.attack == "none":
        clean[cell.data, model] = row
        continue
      title = bare_attack(cell.attack) + ("" if cell.eps is None else f"@{cell.eps}")
      found.setdefault((cell.data, title), {}).setdefault(model, {})[row.oblivious] = row
  tables = []
  for (data, attack), by_model in sorted(found.items()):
    defended = {model: ways for model, ways in by_model.items() if set(ways) - {None}}
    if defended:
      numbers = [
        [order[model], *(_number(row) for row in (clean.get((data, model)), *map(ways.get, WAYS)))]
        for model, ways in defended.items()
      ]
      tables.append({"data": data, "attack": attack, "rows": numbers})
  return tables


def _number(row: CellRow | None) -> list[float | int] | None:
  return None if row is None else in_percent(row.number)
