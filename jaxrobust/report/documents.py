"""The documents that the page reads: one document for the boards, one per model, loaded when it is opened.

Documents are scripts that call a function with JSON, because a page opened from a disk may load scripts but not
data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxrobust.evaluation.metrics.curves import Curve
from jaxrobust.evaluation.metrics.proportions import Proportion
from jaxrobust.report.boards import Board, threat_order
from jaxrobust.report.cell_rows import CellRow
from jaxrobust.report.rankings import Ranking
from jaxrobust.results.ids import certificate_id, is_certificate

SHOWN_PROBLEMS = 200


def as_script(function: str, *values: Any) -> str:
  """Returns a script that calls a function of the page; no character of any text can end the script or begin markup.

  >>> print(as_script("f", "</script>\u2028"), end="")
  JR.f("\\u003c/script>\\u2028");
  """
  words = [json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c") for value in values]
  return f"JR.{function}({', '.join(words)});\n"


def in_percent(number: Proportion) -> list[float | int]:
  """Returns value, low and high in per cent, and n; enough digits that rounding for people is the only rounding.

  >>> in_percent(Proportion(1 / 3, 0.1, 0.7, 30))
  [33.3333, 10.0, 70.0, 30]
  """
  return [*(round(100 * value, 4) for value in number[:3]), number.n]


def model_id(model: str) -> str:
  """Returns the name of a model's document: short, safe, and the same in every report."""
  return hashlib.sha256(model.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def index_document(boards: Sequence[Board], models: Mapping[str, Sequence[CellRow]], problems: Sequence[str]) -> Any:
  """Returns all boards and what filters need to know about the models."""
  order = {model: index for index, model in enumerate(models)}
  return {
    "models": [{"id": model_id(model), "name": model, **about_model(rows)} for model, rows in models.items()],
    "boards": [
      {
        "data": board.data,
        "norm": board.norm,
        "threat": board.threat,
        "unit": board.unit,
        "eps": board.eps,
        "columns": [{"key": c.key, "label": c.label, "title": c.title} for c in board.columns],
        "rows": [
          [order[model], *(None if number is None else in_percent(number) for number in numbers)]
          for model, numbers in board.rows.items()
        ],
        "attacked": [[order[model], entries] for model, entries in board.attacked.items()],
        "rankings": [_ranking(ranking, board, order) for ranking in board.rankings],
      }
      for board in boards
    ],
    "transfers": transfer_maps(models),
    "cells": sum(len(rows) for rows in models.values()),
    "problems": list(problems[:SHOWN_PROBLEMS]),
    "problemCount": len(problems),
  }


def _ranking(ranking: Ranking, board: Board, order: Mapping[str, int]) -> dict[str, Any]:
  """Returns a ranking as the page reads it: [model, number, rank] of those ranked, [model, reason] of the others."""
  labels = {column.key: column.label for column in board.columns}
  places = ranking.places()
  return {
    "attacks": [labels.get(attack, "no attack") for attack in ranking.attacks],
    "n": ranking.n,
    "ranked": [[order[model], in_percent(number), places[model]] for model, number in ranking.numbers.items()],
    "others": [[order[model], reason] for model, reason in ranking.others.items()],
  }


def transfer_maps(models: Mapping[str, Sequence[CellRow]]) -> list[dict[str, Any]]:
  """Returns source × target accuracies and success rates, a map for each data set, number of examples and attack.

  `success` is over what the target has right, `both` over what source and target have right.

  Networks that were never shown each other's images have maps of their own: those trained normally and those trained
  adversarially, as in ARES-Bench's figures 7 and 8 (arXiv:2302.14301).
  """
  order = {model: index for index, model in enumerate(models)}
  found: dict[tuple[str, str, int], dict[tuple[str, str], tuple[float | None, ...]]] = {}
  threats: dict[tuple[str, str, int], str | None] = {}
  for model, rows in models.items():
    for row in rows:
      if row.source and row.cell.condition == "clean":
        key = row.cell.data, row.cell.id.rpartition(":")[2], row.cell.n
        threats.setdefault(key, row.threat)
        found.setdefault(key, {})[row.source, model] = in_percent(row.number)[0], row.success(), row.both
  maps = []
  for (data, attack, n), every in sorted(found.items()):
    about = {"data": data, "attack": attack, "n": n, "threat": threats[data, attack, n]}
    for values in _connected(every):
      sources, targets = (sorted({pair[side] for pair in values}) for side in (0, 1))
      tables = {
        name: [[values.get((source, target), (None,) * 3)[part] for target in targets] for source in sources]
        for part, name in enumerate(("values", "success", "both"))
      }
      maps.append({**about, "sources": sources, "targets": [order[target] for target in targets], **tables})
  return maps


def _connected(values: Mapping[tuple[str, str], Any]) -> list[dict[tuple[str, str], Any]]:
  """Divides pairs of names into groups that share none.

  >>> [sorted(group) for group in _connected({("a", "b"): 1, ("c", "d"): 2, ("b", "a"): 3, ("c", "c"): 4})]
  [[('a', 'b'), ('b', 'a')], [('c', 'c'), ('c', 'd')]]
  """
  groups: dict[str, dict[tuple[str, str], Any]] = {}
  for pair, value in values.items():
    one, other = (groups.setdefault(name, {}) for name in pair)
    if one is not other:
      one.update(other)
      groups |= dict.fromkeys({*pair, *(name for known in other for name in known)}, one)
    one[pair] = value
  return sorted({id(group): group for group in groups.values()}.values(), key=min)


def about_model(rows: Sequence[CellRow]) -> dict[str, Any]:
  """Returns architecture, family, technique, size and publication, each from the first cell that tells."""
  about: dict[str, Any] = dict.fromkeys(("arch", "family", "technique", "defense", "params"))
  about["published"] = {}
  for row in rows:
    for name, value in row.about.items():
      place = about if name in about else about["published"]
      if place.get(name) is None:
        place[name] = value
  return about


def model_document(rows: Sequence[CellRow], boards: Sequence[Board], pictures: Sequence[Mapping[str, Any]]) -> Any:
  """Returns all about one model: its cells, the files behind its entries on the boards, curves and pictures."""
  model = rows[0].cell.model
  return {
    "cells": [_cell(row) for row in sorted(rows, key=_order)],
    "boards": {
      f"{index}": [list(paths) for paths in board.paths[model]]
      for index, board in enumerate(boards)
      if model in board.paths
    },
    "curves": [*budget_curves(rows), *strength_curves(rows)],
    "pictures": list(pictures),
  }


def _order(row: CellRow) -> tuple:
  cell = row.cell
  return cell.data, cell.condition != "clean", cell.condition, cell.attack != "none", cell.attack, row.budget or 0.0


def _cell(row: CellRow) -> dict[str, Any]:
  cell, corruption = row.cell, row.corruption
  return {
    "data": cell.data,
    "condition": cell.condition,
    "corruption": corruption and corruption[0],
    "severity": corruption and corruption[1],
    "attack": cell.attack,
    "norm": row.norm,
    "threat": row.threat,
    "source": row.source,
    "oblivious": row.oblivious,
    "eps": cell.eps,
    "seed": cell.seed,
    "number": in_percent(row.number),
    "path": row.path,
    "command": row.command,
    "findings": list(row.findings),
  }


def budget_curves(rows: Sequence[CellRow]) -> list[dict[str, Any]]:
  """Returns accuracy against budget on clean images, one curve per attack.

  Attacks without a budget give one from their distances; attacks that were run at several give a point for each,
  and the clean accuracy at zero. Certificates give one from their radii, a lower bound: what lies between it and the
  curves of attacks is neither proved nor broken. What was certified before attacks is one more, of all cells together.
  """
  curves: list[dict[str, Any]] = []
  points: dict[tuple[str, str], dict[float, float]] = {}
  about: dict[tuple[str, str], CellRow] = {}
  clean: dict[str, float] = {}
  first: dict[tuple[str, str, int], list[CellRow]] = {}
  for row in rows:
    cell = row.cell
    if row.certificate and row.certified is not None and cell.condition == "clean":
      curves.append(_curve(row, "budget", cell.attack, row.certified))
    if cell.condition != "clean" or not row.adaptive:
      continue
    if row.certified is not None:
      first.setdefault((cell.data, row.threat or "", cell.n), []).append(row)
    if cell.attack == "none":
      clean[cell.data] = row.number.value
    elif cell.eps is None:
      curve = row.curve()
      if curve is not None and row.threat:
        curves.append(_curve(row, "budget", cell.attack, curve))
    elif row.threat and row.budget is not None:
      about.setdefault((cell.data, cell.attack), row)
      points.setdefault((cell.data, cell.attack), {})[row.budget] = row.number.value
  for (data, attack), values in points.items():
    if len(values) > 1:
      values |= {0.0: clean[data]} if data in clean else {}
      xs = sorted(values)
      curve = Curve(np.array(xs), np.array([values[x] for x in xs]))
      curves.append(_curve(about[data, attack], "budget", attack, curve))
  for (_, threat, _), proved in first.items():
    both = _best_proved([row.certified for row in proved if row.certified is not None])
    curves.append(_curve(proved[0], "budget", certificate_id(threat, "first"), both))
  return sorted(curves, key=lambda curve: (curve["data"], threat_order(curve["threat"]), curve["attack"]))


def held_at(budgets: np.ndarray, shares: np.ndarray, xs: np.ndarray) -> np.ndarray:
  """Returns what certificates prove at some budgets: what they say at the next larger one, nothing beyond the last.

  >>> held_at(np.array([0.0, 1.0, 1.5]), np.array([0.9, 0.5, 0.0]), np.array([0.0, 0.2, 1.0, 1.2, 2.0])).tolist()
  [0.9, 0.5, 0.5, 0.0, 0.0]
  """
  return np.append(shares, 0.0)[np.searchsorted(budgets, xs)]


def _best_proved(curves: Sequence[Curve]) -> Curve:
  xs = np.unique(np.concatenate([curve.x for curve in curves]))
  return Curve(xs, np.max([held_at(curve.x, curve.y, xs) for curve in curves], axis=0))


def strength_curves(rows: Sequence[CellRow]) -> list[dict[str, Any]]:
  """Returns accuracy against the number of attack steps, from the step at which each example broke."""
  return [
    _curve(row, "strength", row.cell.id, row.strength)
    for row in sorted(rows, key=_order)
    if row.strength is not None and row.cell.condition == "clean" and row.adaptive
  ]


def _curve(row: CellRow, kind: str, attack: str, curve: Curve) -> dict[str, Any]:
  points = [[round(float(x), 6), round(100 * float(y), 2)] for x, y in zip(curve.x, curve.y, strict=True)]
  about = {"data": row.cell.data, "kind": kind, "norm": row.norm or "", "threat": row.threat or ""}
  proved = {"proved": True} if is_certificate(attack) else {}
  return {**about, "unit": row.unit or "", "n": row.cell.n, "attack": attack, "points": points, **proved}
