"""Results of earlier schemas, brought up to date while they are read; a file itself is never changed by reading it.

Each step takes a whole document from one schema to the next, so a reader of schema 7 needs no knowledge of schema 2.
A new schema is one function and one line in `MIGRATIONS`.

Schema 0 is the flat record: one object of names and numbers, as a person, a script or another benchmark writes
it down when there is nothing per example. Everything that `jaxrobust.results.exchange` imports passes through it.
Schema 1 has arrays per example, and its threat only at the head of the attack's id; schema 2 says it in `config`.

  {"schema": 0, "model": "resnet50", "data": "imagenet", "n": 5000, "accuracy": 0.761, "source": "our paper, table 2"}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxrobust.core.errors import CorruptFileError
from jaxrobust.results.ids import SEQUENCE, attack_norm

Document = dict[str, Any]

_CELL = {"model": None, "data": None, "condition": "clean", "attack": "none", "eps": None, "n": None, "seed": 0}
_RECORD = {*_CELL, "schema", "accuracy", "robust_accuracy", "threat", "source", "details", "about", "findings"}


def from_record(record: Document) -> Document:
  """Turns schema 0 into 1: the cell, its summary and its source take their places.

  `accuracy` is that on the images before the attack, `robust_accuracy` the one after it; a record without attack
  needs only the first. `threat` names one that is no norm at the head of the attack's id. `details` decide which record
  it is (and are compared), `about` describes the model; `findings` are warnings of whoever published the number.

  >>> new = from_record({"schema": 0, "model": "a", "data": "b", "n": 200, "accuracy": 0.755})
  >>> new["schema"], new["cell"]["attack"], new["summary"]["correct"], new["summary"]["robust_accuracy"]
  (1, 'none', 151, 0.755)
  """
  unknown = sorted(set(record) - _RECORD)
  if unknown:
    raise CorruptFileError(f"a record of schema 0 has no entry {', '.join(unknown)}")
  cell = {name: record.get(name, default) for name, default in _CELL.items()}
  n, accuracy, robust = cell["n"], record.get("accuracy"), record.get("robust_accuracy")
  if cell["attack"] == "none" and robust is None:
    robust = accuracy
  for name, value in (("accuracy", accuracy), ("robust_accuracy", robust)):
    if value is not None and (type(value) not in (int, float) or not 0 <= value <= 1):
      raise CorruptFileError(f"{name} is {value!r}; expected a fraction between 0 and 1")
  if robust is None or type(n) is not int:
    raise CorruptFileError("a record of schema 0 needs n and an accuracy (robust_accuracy where there is an attack)")
  source, threat = record.get("source", "unknown"), record.get("threat")
  if threat is not None and (not isinstance(threat, str) or not threat):
    raise CorruptFileError(f"threat is {threat!r}; expected a name")
  said = {} if threat is None else {"threat": {"name": threat}}
  return {
    "schema": 1,
    "cell": cell,
    "config": {"imported": {"source": source, "details": record.get("details", {})}, **said},
    "provenance": {"source": source, "model": record.get("about", {})},
    "summary": {
      "n": n,
      "accuracy": accuracy,
      "correct": None if accuracy is None else round(accuracy * n),
      "robust_accuracy": robust,
      "robust": round(robust * n),
    },
    "examples": {},
    "findings": record.get("findings", []),
  }


def add_threat(document: Document) -> Document:
  """Turns schema 1 into 2: the configuration says the threat, which was a norm at the head of the attack's id.

  What is damaged stays as it is: whoever reads the document refuses it by name.

  >>> old = {"schema": 1, "cell": {"attack": "transfer:net:l2-pgd-20"}, "config": {"samples": 1}}
  >>> add_threat(old)["config"]
  {'samples': 1, 'threat': {'name': 'l2'}}
  """
  cell, config = document.get("cell"), document.get("config")
  if isinstance(cell, dict) and isinstance(config, dict) and "threat" not in config:
    attack, condition = str(cell.get("attack")), str(cell.get("condition"))
    norm = None if condition.startswith(SEQUENCE) else attack_norm(attack)
    config = {**config, "threat": None if norm is None else {"name": norm}}
  return {**document, "schema": 2, **({} if config is None else {"config": config})}


MIGRATIONS: dict[int, Callable[[Document], Document]] = {0: from_record, 1: add_threat}


def migrate(document: Document, schema: int) -> Document:
  """Returns the document in the wanted schema; CorruptFileError where no steps lead there."""
  found = document.get("schema")
  if type(found) is not int:
    raise CorruptFileError(f"not a result (schema is {found!r})")
  if found > schema:
    raise CorruptFileError(f"made by a newer jaxrobust (schema {found}; this one reads up to {schema})")
  while found < schema:
    if found not in MIGRATIONS:
      raise CorruptFileError(f"nothing reads schema {found} any more")
    document = MIGRATIONS[found](document)
    found += 1
  return document
