"""A table of models: what trends, ranks and correlations are computed from.

Columns of numbers have one entry per model and NaN where there is none; columns of text are labels to group and filter
by. Accuracies are percentages. The columns that stand for something are called

  ID accuracy, ID robustness                    without a shift
  SHIFT accuracy, SHIFT robustness              under one: OOD_d, OOD_t, fog, cifar10.1-v6, …

and the leaderboards of OODRobustBench, which use other words, are read as these.
"""

from __future__ import annotations

import csv
import datetime
import hashlib
import io
import numbers
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.core.errors import InputError, StorageError
from jaxrobust.core.reading import LARGEST_TEXT, read_if_there
from jaxrobust.core.registry import unknown_name

ID = "ID"
ACCURACY, ROBUSTNESS = "accuracy", "robustness"
# Between the name of a suite and that of its metric, in columns that come from summaries.
METRIC = ": "

# The words of https://oodrobustbench.github.io, and ours.
HEADERS = {
  "ID clean acc.": "ID accuracy",
  "ID robust acc.": "ID robustness",
  "OOD robust acc.": "OOD robustness",
  "OOD-D clean acc.": "OOD_d accuracy",
  "OOD-D robust acc.": "OOD_d robustness",
  "OOD-T robust acc.": "OOD_t robustness",
}
# Columns that may hold the names of models, best first.
NAMES = ("model", "name", "method", "id")
DATE = "date"
# What no column measures; its squares still are numbers.
LARGEST = 1e100
_GAPS = {"", "-", "–", "—", "nan", "na", "n/a", "none", "null"}


@dataclass(frozen=True, eq=False)
class Zoo:
  """Models and what is known of them.

  Attributes:
    models: names, all different.
    columns: numbers by column.
    labels: texts by column, "" where there is none.
    source: where the table came from.
    date: of the table; a trend is as old as its zoo.
    filters: that led to these models, in words.
    notes: what a reader of the numbers must know.
  """

  models: tuple[str, ...]
  columns: Mapping[str, np.ndarray]
  labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
  source: str = ""
  date: str = ""
  filters: tuple[str, ...] = ()
  notes: tuple[str, ...] = ()

  def __len__(self) -> int:
    return len(self.models)

  def spelled(self, name: str) -> str:
    """Returns the name of a column of numbers, whatever the case, or what OODRobustBench's boards call it."""
    wanted = HEADERS.get(name.strip(), name.strip()).casefold()
    for known in self.columns:
      if known.casefold() == wanted:
        return known
    raise unknown_name("column of numbers", name, list(self.columns))

  def column(self, name: str) -> np.ndarray:
    """Returns a column of numbers, by its name as `spelled` finds it."""
    return self.columns[self.spelled(name)]

  def label(self, name: str) -> tuple[str, ...]:
    """Returns a column of labels, whatever the case of its name; `model` is one."""
    labels = {known.casefold(): values for known, values in {NAMES[0]: self.models, **self.labels}.items()}
    if name.strip().casefold() not in labels:
      raise unknown_name("label", name, sorted(labels))
    return labels[name.strip().casefold()]

  def take(self, flags: np.ndarray, why: str = "") -> Zoo:
    """Returns the zoo of some of the models, and remembers why."""
    rows = np.flatnonzero(flags)
    pick = lambda values: tuple(values[row] for row in rows)
    return replace(
      self,
      models=pick(self.models),
      columns={name: values[rows] for name, values in self.columns.items()},
      labels={name: pick(values) for name, values in self.labels.items()},
      filters=(*self.filters, why) if why else self.filters,
    )

  def groups(self, label: str) -> dict[str, Zoo]:
    """Splits the zoo by a label, in the order of its values; models without the label are a group called "unknown"."""
    values = np.array([value or "unknown" for value in self.label(label)], object)
    return {str(value): self.take(values == value) for value in sorted(set(values))}

  def shifts(self, kind: str) -> list[str]:
    """Lists the columns of one kind, `accuracy` or `robustness`, that are under a shift; `SUITE: METRIC` is none."""
    named = [name for name in self.columns if name.endswith(f" {kind}") and METRIC not in name]
    return [name for name in named if name != f"{ID} {kind}"]

  def about(self) -> dict[str, Any]:
    """Returns what must stand beside every number that is made from this zoo."""
    return {"zoo": self.source, "date": self.date, "models": len(self), "filter": ", ".join(self.filters)}


def make_zoo(table: Mapping[str, Sequence[Any]], source: str = "", date: str = "") -> Zoo:
  """Makes a zoo of columns of anything: numbers, percentages as text ("69.50%"), other text, and gaps.

  A column is one of numbers where every entry is a number or a gap; where most are, a note says why it is none. A label
  `date` dates the models: the zoo is as old as its newest.
  Models of one name are told apart by their architecture, where the table has it, and then by a count.

  Args:
    table: columns by name, all of the same length.
    source: where the table came from.
    date: of the table; of its `date` column where none is given.

  Returns:
    The zoo.

  Raises:
    InputError: there are no rows, columns of different lengths, or two of one name.

  >>> zoo = make_zoo({"Method": ["AT", "AT"], "Arch.": ["R18", "R50"], "ID robust acc.": ["50.10%", "-"]})
  >>> zoo.models, zoo.columns["ID robustness"].tolist(), zoo.labels["arch"]
  (('AT, R18', 'AT, R50'), [50.1, nan], ('R18', 'R50'))
  """
  sizes = {len(values) for values in table.values()}
  if len(sizes) != 1 or not sizes - {0}:
    raise InputError(f"a table of models needs rows, and columns of one length; got lengths {sorted(sizes)}")
  columns: dict[str, np.ndarray] = {}
  labels: dict[str, tuple[str, ...]] = {}
  notes: list[str] = []
  called: dict[str, str] = {}
  for header, values in table.items():
    found = [_number(value) for value in values]
    known = [value for value in found if value is not None]
    if len(known) == len(found) and np.isfinite(known).any():
      name = HEADERS.get(header.strip(), header.strip())
      columns[name] = np.where(np.abs(known) < LARGEST, known, np.nan)
      if lost := int(np.isnan(columns[name]).sum() - np.isnan(known).sum()):
        notes.append(f"{header.strip()}: {lost} of {len(known)} numbers are infinite or above {LARGEST:g}: left out")
    else:
      name = header.strip().rstrip(".").lower()
      labels[name] = tuple("" if _gap(value) else str(value).strip() for value in values)
      if np.isfinite(known).sum() > len(found) / 2:
        row = found.index(None)
        notes.append(f"{header.strip()} is read as text: {values[row]!r} of row {row + 1} is no number")
    # Columns are found whatever the case of their names.
    if (other := called.setdefault(name.casefold(), header)) != header:
      raise InputError(f"columns {other!r} and {header!r} are both read as {name!r}: keep one of them")
  newest = max(labels.get(DATE, ()), default="")
  return Zoo(_unique(labels, sizes.pop()), columns, labels, source, date or newest, notes=tuple(notes))


def read_csv(path: str | os.PathLike, date: str = "") -> Zoo:
  """Reads a zoo from a CSV file with a header, such as a downloaded leaderboard; semicolons or tabs may separate it.

  Args:
    path: of the file.
    date: of the table; of its `date` column where none is given, and "file of DAY" where there is no such column.

  Returns:
    The zoo; its source is the file's name and the first digits of its SHA-256.
  """
  path = Path(path)
  raw = read_if_there(path, LARGEST_TEXT)
  if raw is None:
    raise StorageError(f"cannot read {path}: no such file")
  changed = path.stat().st_mtime
  try:
    text = raw.decode("utf-8-sig")
    first = text.partition("\n")[0]
    # A header without a comma is of one column, or of a table that was not separated by commas.
    between = next((mark for mark in ",;\t" if mark in first), ",")
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=between))
  except (UnicodeDecodeError, csv.Error) as error:
    raise InputError(f"{path} is no CSV file: {error}") from None
  rows = [row for row in rows if row]
  if len(rows) < 2:
    raise InputError(f"{path} holds no models: a header and at least one row are needed")
  head = [name.strip() for name in rows[0]]
  twice = [name for name, count in Counter(head).items() if count > 1]
  if twice:
    raise InputError(f"{path} has two columns called {twice[0]!r}")
  for number, row in enumerate(rows, 1):
    if len(row) != len(head):
      raise InputError(f"{path}: row {number} has {len(row)} entries where the header has {len(head)}")
  table = dict(zip(head, zip(*rows[1:], strict=True), strict=True))
  zoo = make_zoo(table, f"{path.name} (sha256 {hashlib.sha256(raw).hexdigest()[:12]})", date)
  day = datetime.datetime.fromtimestamp(changed, datetime.UTC).date().isoformat()
  return zoo if zoo.date else replace(zoo, date=f"file of {day}")


def read_frame(frame: Any, source: str = "a data frame", date: str = "") -> Zoo:
  """Makes a zoo of a pandas data frame; its index is not looked at.

  >>> import pandas
  >>> read_frame(pandas.DataFrame({"model": ["a", "b"], "params": [10, 20]})).columns["params"].tolist()
  [10.0, 20.0]
  """
  return make_zoo({str(name): frame[name].tolist() for name in frame.columns}, source, date)


def in_percent(zoo: Zoo, *others: str) -> Zoo:
  """Makes percentages of a table of fractions: of accuracies and robustness, which must lie within 0 and 1.

  Args:
    zoo: models.
    others: more columns to convert; those with numbers above 1 are none of fractions, and stay.

  >>> zoo = make_zoo({"model": ["a", "b"], "fog accuracy": [0.5, 0.75], "v6": [0.25, 0.5], "params": [9, 8]})
  >>> {name: values.tolist() for name, values in in_percent(zoo, "v6", "params").columns.items()}
  {'fog accuracy': [50.0, 75.0], 'v6': [25.0, 50.0], 'params': [9.0, 8.0]}
  """
  more, columns = {zoo.spelled(name) for name in others if name}, dict(zoo.columns)
  for name, values in zoo.columns.items():
    is_share = name.endswith((f" {ACCURACY}", f" {ROBUSTNESS}")) and METRIC not in name
    beyond = np.any((values < 0) | (values > 1))
    if is_share and beyond:
      low, high = np.nanmin(values), np.nanmax(values)
      raise InputError(f"{name} ranges from {low:g} to {high:g}, not within 0 and 1; see --top")
    if is_share or (name in more and not beyond):
      columns[name] = 100 * values
  return replace(zoo, columns=columns)


def split_names(text: str) -> list[str]:
  """Splits names at commas, but not inside of brackets, where the name of a mean may have one.

  >>> split_names("R_c[net.0a1b2c, 8 of 75] robustness, params")
  ['R_c[net.0a1b2c, 8 of 75] robustness', 'params']
  """
  return [name.strip() for name in re.split(r",(?![^\[\]]*\])", text)]


def _gap(value: Any) -> bool:
  return value is None or value != value or (isinstance(value, str) and value.strip().lower() in _GAPS)


def _number(value: Any) -> float | None:
  """Reads a number, NaN for a gap; None where it is something else."""
  if _gap(value):
    return float("nan")
  if isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_):
    return float(value)
  try:
    return float(value.strip().removesuffix("%")) if isinstance(value, str) else None
  except ValueError:
    return None


def _unique(labels: Mapping[str, tuple[str, ...]], size: int) -> tuple[str, ...]:
  """Names every model differently."""
  column = next((name for name in NAMES if name in labels), next(iter(labels), None))
  names = list(labels[column]) if column is not None else [""] * size
  arch = labels.get("arch", ("",) * size)
  counts = Counter(names)
  both = zip(names, arch, strict=True)
  names = [f"{name}, {more}" if name and more and counts[name] > 1 else name for name, more in both]
  counts, numbered = Counter(names), Counter[str]()
  taken = {name for name in counts if name and counts[name] == 1}
  for row, name in enumerate(names):
    if name in taken:
      continue
    text = name
    while text == name or text in taken:
      numbered[name] += 1
      text = f"{name} #{numbered[name]}".strip()
    names[row] = text
    taken.add(text)
  return tuple(names)
