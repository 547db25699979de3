"""What the page reads: one document for the boards, one per model, loaded when it is opened.

Documents are scripts that call a function with JSON, because a page opened from a disk may load scripts but not
data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxrobust.analysis.curves import Curve
from jaxrobust.analysis.proportions import Proportion
from jaxrobust.report.boards import Board
from jaxrobust.report.facts import Fact

SHOWN_PROBLEMS = 200


def as_script(function: str, *values: Any) -> str:
  """A script that calls a function of the page; no character of any text can end the script or begin markup.

  >>> print(as_script("f", "</script>\u2028"), end="")
  JR.f("\\u003c/script>\\u2028");
  """
  words = [json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c") for value in values]
  return f"JR.{function}({', '.join(words)});\n"


def in_percent(number: Proportion) -> list[float | int]:
  """Value, low and high in per cent, and n; enough digits that rounding for people is the only rounding.

  >>> in_percent(Proportion(1 / 3, 0.1, 0.7, 30))
  [33.3333, 10.0, 70.0, 30]
  """
  return [*(round(100 * value, 4) for value in number[:3]), number.n]


def model_id(model: str) -> str:
  """The name of a model's document: short, safe, and the same in every report."""
  return hashlib.sha256(model.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def index_document(boards: Sequence[Board], models: Mapping[str, Sequence[Fact]], problems: Sequence[str]) -> Any:
  """All boards and what filters need to know about the models."""
  order = {model: index for index, model in enumerate(models)}
  return {
    "models": [{"id": model_id(model), "name": model, **about_model(facts)} for model, facts in models.items()],
    "boards": [
      {
        "data": board.data,
        "norm": board.norm,
        "eps": board.eps,
        "columns": [{"key": c.key, "label": c.label, "title": c.title} for c in board.columns],
        "rows": [
          [order[model], *(None if number is None else in_percent(number) for number in numbers)]
          for model, numbers in board.rows.items()
        ],
      }
      for board in boards
    ],
    "transfers": transfer_maps(models),
    "cells": sum(len(facts) for facts in models.values()),
    "problems": list(problems[:SHOWN_PROBLEMS]),
    "problemCount": len(problems),
  }


def transfer_maps(models: Mapping[str, Sequence[Fact]]) -> list[dict[str, Any]]:
  """Source × target accuracies, one map for each data set, attack and budget."""
  order = {model: index for index, model in enumerate(models)}
  found: dict[tuple[str, str], dict[tuple[str, str], float]] = {}
  for model, facts in models.items():
    for fact in facts:
      if fact.source and fact.cell.condition == "clean":
        attack = fact.cell.id.rpartition(":")[2]
        found.setdefault((fact.cell.data, attack), {})[fact.source, model] = in_percent(fact.number)[0]
  maps = []
  for (data, attack), values in sorted(found.items()):
    sources, targets = (sorted({pair[side] for pair in values}) for side in (0, 1))
    rows = [[values.get((source, target)) for target in targets] for source in sources]
    maps.append(
      {"data": data, "attack": attack, "sources": sources, "targets": [order[t] for t in targets], "values": rows}
    )
  return maps


def about_model(facts: Sequence[Fact]) -> dict[str, Any]:
  """Architecture, family, technique and size, from the first cell that tells."""
  about: dict[str, Any] = {"arch": None, "family": None, "technique": None, "params": None}
  for fact in facts:
    about = {name: fact.about.get(name) if value is None else value for name, value in about.items()}
  return about


def model_document(facts: Sequence[Fact], boards: Sequence[Board], pictures: Sequence[Mapping[str, Any]]) -> Any:
  """Everything about one model: its cells, the files behind its entries on the boards, curves and pictures."""
  model = facts[0].cell.model
  return {
    "cells": [_cell(fact) for fact in sorted(facts, key=_order)],
    "boards": {
      f"{index}": [list(paths) for paths in board.paths[model]]
      for index, board in enumerate(boards)
      if model in board.paths
    },
    "curves": [*budget_curves(facts), *strength_curves(facts)],
    "pictures": list(pictures),
  }


def _order(fact: Fact) -> tuple:
  cell = fact.cell
  return cell.data, cell.condition != "clean", cell.condition, cell.attack != "none", cell.attack, fact.budget or 0.0


def _cell(fact: Fact) -> dict[str, Any]:
  cell, corruption = fact.cell, fact.corruption
  return {
    "data": cell.data,
    "condition": cell.condition,
    "corruption": corruption and corruption[0],
    "severity": corruption and corruption[1],
    "attack": cell.attack,
    "norm": fact.norm,
    "source": fact.source,
    "eps": cell.eps,
    "seed": cell.seed,
    "number": in_percent(fact.number),
    "path": fact.path,
    "command": fact.command,
    "findings": list(fact.findings),
  }


def budget_curves(facts: Sequence[Fact]) -> list[dict[str, Any]]:
  """Accuracy against budget on clean images, one curve per attack.

  Attacks without a budget give one from their distances; attacks that were run at several give a point for each,
  and the clean accuracy at zero.
  """
  curves: list[dict[str, Any]] = []
  points: dict[tuple[str, str, str], dict[float, float]] = {}
  clean: dict[str, float] = {}
  for fact in facts:
    cell = fact.cell
    if cell.condition != "clean" or fact.source:
      continue
    if cell.attack == "none":
      clean[cell.data] = fact.number.value
    elif cell.eps is None:
      curve = fact.curve()
      if curve is not None and fact.norm:
        curves.append(_curve(cell.data, "budget", fact.norm, cell.attack, curve))
    elif fact.norm and fact.budget is not None:
      points.setdefault((cell.data, fact.norm, cell.attack), {})[fact.budget] = fact.number.value
  for (data, norm, attack), values in sorted(points.items()):
    if len(values) > 1:
      values |= {0.0: clean[data]} if data in clean else {}
      xs = sorted(values)
      curves.append(_curve(data, "budget", norm, attack, Curve(np.array(xs), np.array([values[x] for x in xs]))))
  return sorted(curves, key=lambda curve: (curve["data"], curve["norm"], curve["attack"]))


def strength_curves(facts: Sequence[Fact]) -> list[dict[str, Any]]:
  """Accuracy against the number of attack steps, from the step at which each example broke."""
  return [
    _curve(fact.cell.data, "strength", fact.norm or "", fact.cell.id, fact.strength)
    for fact in sorted(facts, key=_order)
    if fact.strength is not None and fact.cell.condition == "clean" and not fact.source
  ]


def _curve(data: str, kind: str, norm: str, attack: str, curve: Curve) -> dict[str, Any]:
  points = [[round(float(x), 6), round(100 * float(y), 2)] for x, y in zip(curve.x, curve.y, strict=True)]
  return {"data": data, "kind": kind, "norm": norm, "attack": attack, "points": points}
