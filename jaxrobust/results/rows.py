"""A result as one flat row: what queries select from.

Damaged or hostile values cost a row its value and leave a finding; they never stop a query.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from jaxrobust.core.budget import Budget
from jaxrobust.core.condition import parse_corruption
from jaxrobust.core.errors import CorruptFileError, JaxrobustError
from jaxrobust.results.cell import Cell, Result, read_document
from jaxrobust.results.ids import attack_norm, oblivious_by, threat_name, transfer_source
from jaxrobust.results.packing import count_flags

# The columns of a row and their DuckDB types.
COLUMNS = {
  "path": "VARCHAR",
  "model": "VARCHAR",
  "data": "VARCHAR",
  "condition": "VARCHAR",
  "corruption": "VARCHAR",
  "severity": "BIGINT",
  "attack": "VARCHAR",
  "norm": "VARCHAR",
  "threat": "VARCHAR",
  "source": "VARCHAR",
  "oblivious": "VARCHAR",
  "eps": "VARCHAR",
  "budget": "DOUBLE",
  "n": "BIGINT",
  "seed": "BIGINT",
  "accuracy": "DOUBLE",
  "robust_accuracy": "DOUBLE",
  "correct": "BIGINT",
  "robust": "BIGINT",
  "nan": "BIGINT",
  "disagree": "BIGINT",
  "queries": "BIGINT",
  "median_distance": "DOUBLE",
  "arch": "VARCHAR",
  "family": "VARCHAR",
  "technique": "VARCHAR",
  "defense": "VARCHAR",
  "params": "BIGINT",
  "fingerprint": "VARCHAR",
  "precision": "VARCHAR",
  "findings": "BIGINT",
  "summary": "VARCHAR",
  "config": "VARCHAR",
  "provenance": "VARCHAR",
}
_COUNTS = ("correct", "robust", "nan", "disagree", "queries")
_NUMBERS = ("accuracy", "robust_accuracy", "median_distance")
_ABOUT = ("arch", "family", "technique", "defense")
_NAMES = (*_ABOUT, "path", "model", "data", "condition", "attack", "threat", "source", "oblivious")
_WORD = 2**63 - 1


@functools.lru_cache(4096)
def budget_value(eps: str | None) -> float | None:
  """Returns the number of a budget; None for no budget and for one that is no number, such as 1/0."""
  try:
    return None if eps is None else Budget(eps).value
  except (ValueError, ArithmeticError):
    return None


def make_row(path: str, raw: bytes | Result) -> dict[str, Any]:
  """Returns the row of a cell file's bytes, or of a merged result; CorruptFileError where it is none."""
  document = vars(raw) if isinstance(raw, Result) else read_document(raw)
  cell: Cell = document["cell"]
  if max(cell.n, cell.seed) > _WORD:
    raise CorruptFileError("n or seed is larger than any cell's")
  summary, config, provenance = document["summary"], document["config"], document["provenance"]
  issues = list(document["findings"])
  if not isinstance(raw, Result):
    issues.extend(_disagreements(cell, summary, document["examples"]))
  corruption = parse_corruption(cell.condition) or (None, None)
  row = {
    "path": path,
    "model": cell.model,
    "data": cell.data,
    "condition": cell.condition,
    "corruption": corruption[0],
    "severity": corruption[1],
    "attack": cell.attack,
    "norm": attack_norm(cell.attack),
    "threat": threat_name(config, cell.attack),
    "source": transfer_source(cell.attack),
    "oblivious": oblivious_by(cell.attack),
    "eps": cell.eps,
    "budget": budget_value(cell.eps),
    "n": cell.n,
    "seed": cell.seed,
    **{name: _whole(summary.get(name)) for name in _COUNTS},
    **{name: _number(summary.get(name)) for name in _NUMBERS},
    **describe_model(config, provenance),
    "fingerprint": _text(config.get("model_fingerprint")),
    "precision": _text(config.get("precision")),
    "findings": len(issues),
    "summary": _dump(summary),
    "config": _dump(config),
    "provenance": _dump(provenance),
  }
  return {**_encodable(row), "notes": _dump(issues) if issues else None}


_PUBLISHED = ("name", "authors", "venue", "link", "footnote", "reported")


def published_as(provenance: Mapping[str, Any]) -> dict[str, Any]:
  """Returns what a number's publisher says of its model: paper, authors, venue, link, extra data, unreliable or not."""
  about = provenance.get("model")
  if not isinstance(about, Mapping):
    return {}
  texts = {name: text for name in _PUBLISHED if (text := _text(about.get(name)))}
  extra = about.get("additional_data")
  # RobustBench has true and false, OODRobustBench's tables a tick and a cross.
  known = {True: True, False: False, "\u2611": True, "\u00d7": False}
  flags = {"extra_data": known[extra]} if isinstance(extra, bool | str) and extra in known else {}
  return {**texts, **flags, **({"unreliable": True} if about.get("unreliable") is True else {})}


def describe_model(config: Mapping[str, Any], provenance: Mapping[str, Any]) -> dict[str, Any]:
  """Returns what is known about the network itself; None where nothing is."""
  for about in (provenance.get("model"), config.get("model")):
    if isinstance(about, Mapping):
      params = _whole(about.get("params"))
      return {name: _text(about.get(name)) for name in _ABOUT} | {"params": params}
  return dict.fromkeys((*_ABOUT, "params"))


def _disagreements(cell: Cell, summary: Mapping[str, Any], examples: Mapping[str, Any]) -> list[dict[str, Any]]:
  """Finds where the flags do not add up to the summary: one of them was changed by hand."""
  found = []
  for name in ("correct", "robust"):
    if name not in examples:
      continue
    count = count_flags(examples[name], None if "index" in examples else cell.n)
    if count != summary.get(name):
      text = f"the flags say {name} {count}, the summary says {_dump(summary.get(name))[:40]}"
      found.append({"kind": "summary-mismatch", "text": text, "examples": cell.n})
  return found


def _whole(value: Any) -> int | None:
  return value if type(value) is int and abs(value) <= _WORD else None


def _number(value: Any) -> float | None:
  return float(value) if type(value) is float or (type(value) is int and abs(value) <= _WORD) else None


def _text(value: Any) -> str | None:
  return value if isinstance(value, str) else None


def _dump(value: Any) -> str:
  try:
    return json.dumps(value)
  except (RecursionError, ValueError) as error:
    raise CorruptFileError(f"nested too deeply ({type(error).__name__})") from None


def _encodable(row: dict[str, Any]) -> dict[str, Any]:
  """Returns text that UTF-8 cannot hold (half a surrogate pair) with question marks in its place."""
  for name in _NAMES:
    value = row[name]
    if value is not None and not value.isascii():
      row[name] = value.encode("utf-8", "replace").decode("utf-8")
  return row


def error_row(path: str, error: JaxrobustError, missing: bool) -> dict[str, Any]:
  """Returns the row of a file that holds no result: only a finding."""
  note = {"kind": "unfinished" if missing else "damaged", "text": str(error), "examples": None}
  return {**dict.fromkeys(COLUMNS), "path": path, "notes": _dump([note])}
