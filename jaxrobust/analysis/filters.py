"""Chooses the models of a zoo that count by one line: `acc+rob>=110, technique!=custom, arch=WideResNet*`.

Terms are joined by commas and must all hold:

  acc+rob>=110            a sum of columns against a number; acc and rob are ID accuracy and ID robustness
  OOD_d robustness>30     any column of numbers
  technique=trades|mart   a label that matches one of the shell patterns, whatever the case; != for none of them. Of
                          techniques that were joined by +, such as cutout+trades, one that matches is enough
  model!=cnn-a-*          so for the names of models
  no-custom               models that were published, not trained for the study (OODRobustBench's "NC")

A model without the number does not hold; one without the label matches only an empty pattern. What filter was used is
part of a result: OODRobustBench drops acc + rob < 110 (appendix C.2, arXiv:2310.12793), which moves its ImageNet limit.
"""

from __future__ import annotations

import fnmatch
import operator
import re
from collections.abc import Callable, Sequence

import numpy as np

from jaxrobust.analysis.zoo import NAMES, Zoo, split_names
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name

ALIASES = {"acc": "ID accuracy", "rob": "ID robustness"}
NO_CUSTOM = "no-custom"
# Labels that can say that a model was trained for the study, and what they then say.
_CUSTOM_LABELS = ("custom", "source", "venue", "technique")
# Of these the label that is about something else: it says nothing unless it says so of some model.
_TECHNIQUE = _CUSTOM_LABELS[-1]
_CUSTOM_WORDS = ("custom", "locally-trained", "locally trained", "true", "yes", "1")

_TERM = re.compile(r"(.+?)(>=|<=|!=|==|=|>|<)(.*)", re.DOTALL)
_COMPARE: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
  ">=": operator.ge,
  "<=": operator.le,
  ">": operator.gt,
  "<": operator.lt,
  "=": operator.eq,
  "==": operator.eq,
  "!=": operator.ne,
}


def apply_filter(zoo: Zoo, text: str) -> Zoo:
  """Keeps the models for which every term of a filter holds, and records the filter in the zoo.

  Args:
    zoo: models.
    text: terms, see above; empty for all models.

  Returns:
    The smaller zoo.

  Raises:
    InputError: a term that says nothing, or a filter that leaves no model.
    UnknownNameError: a column or label that the zoo does not have.

  >>> from jaxrobust.analysis.zoo import make_zoo
  >>> table = {"model": ["a", "b", "c"], "technique": ["trades", "pgd-at", ""], "ID robustness": [50, 40, 45]}
  >>> zoo = make_zoo(table | {"ID accuracy": [80, 60, 85]})
  >>> apply_filter(zoo, "acc+rob>=110").models, apply_filter(zoo, "technique=trades|mart, rob>45").models
  (('a', 'c'), ('a',))
  """
  for term in split_names(text):
    if not term:
      continue
    left = zoo.take(_holds(zoo, term), term)
    if not len(left):
      raise InputError(f"the filter {term!r} leaves none of {len(zoo)} models{_values(zoo, term)}")
    zoo = left
  return zoo


def _holds(zoo: Zoo, term: str) -> np.ndarray:
  if term.lower() == NO_CUSTOM:
    return ~_custom(zoo)
  match = _TERM.fullmatch(term)
  if match is None:
    raise InputError(f"the filter {term!r} compares nothing; write acc+rob>=110, technique=trades or no-custom")
  left, sign, right = (part.strip() for part in match.groups())
  if _is_label(zoo, left):
    return _label_holds(_spellings(zoo, left), sign, right, term)
  try:
    number = float(right.removesuffix("%"))
  except ValueError:
    if _is_sum(zoo, left):
      raise InputError(f"the filter {term!r} needs a number after {sign}") from None
    raise unknown_name("label", left, sorted(zoo.labels)) from None
  values = _sum(zoo, left)
  with np.errstate(invalid="ignore"):
    return np.isfinite(values) & _COMPARE[sign](values, number)


def _label_holds(values: Sequence[Sequence[str]], sign: str, right: str, term: str) -> np.ndarray:
  if sign not in ("=", "==", "!="):
    raise InputError(f"the filter {term!r} compares text; only = and != do")
  patterns = [pattern.strip().casefold() for pattern in right.split("|")]
  found = [any(fnmatch.fnmatchcase(one.casefold(), pattern) for pattern in patterns for one in ones) for ones in values]
  return np.array(found, bool) != (sign == "!=")


def _is_label(zoo: Zoo, name: str) -> bool:
  return name.casefold() in {label.casefold() for label in (NAMES[0], *zoo.labels)} - {
    c.casefold() for c in zoo.columns
  }


def _spellings(zoo: Zoo, name: str) -> list[tuple[str, ...]]:
  """Returns what a pattern may match of each model: its label, and each technique of those that were joined."""
  parts = name.casefold() == _TECHNIQUE
  return [(value, *(part.strip() for part in value.split("+") if parts)) for value in zoo.label(name)]


def _values(zoo: Zoo, term: str) -> str:
  """Says what a label is, where a filter by it has left no model."""
  match = _TERM.fullmatch(term)
  name = match[1].strip() if match else ""
  if not _is_label(zoo, name):
    return ""
  known = sorted({value or "unknown" for value in zoo.label(name)})
  more = f" and {len(known) - 5} more" if len(known) > 5 else ""
  return f"; {name} is {', '.join(known[:5])}{more}"


def _is_sum(zoo: Zoo, text: str) -> bool:
  try:
    _sum(zoo, text)
  except KeyError:
    return False
  return True


def _sum(zoo: Zoo, text: str) -> np.ndarray:
  """Adds columns; a column's own name may hold a plus sign."""
  if text.casefold() in {name.casefold() for name in zoo.columns}:
    return zoo.column(text)
  names = [name.strip() for name in text.split("+")]
  return np.sum([zoo.column(ALIASES.get(name.casefold(), name)) for name in names], axis=0)


def _custom(zoo: Zoo) -> np.ndarray:
  """Marks the models that were trained for the study."""
  there = {name: np.char.lower(zoo.labels[name]) for name in _CUSTOM_LABELS if any(zoo.labels.get(name, ()))}
  said = {name: np.isin(values, _CUSTOM_WORDS) for name, values in there.items()}
  if not np.any(said.get(_TECHNIQUE, False)):
    said.pop(_TECHNIQUE, None)
  if "custom" in zoo.columns:
    said["custom"] = np.nan_to_num(zoo.columns["custom"]) != 0
  if not said:
    raise InputError(f"nothing says which models are custom: no label {', '.join(_CUSTOM_LABELS)} that does")
  return np.any(list(said.values()), axis=0)
