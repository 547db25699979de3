"""Who may be ranked against whom: models under the same attacks, on as many examples.

A weaker evaluation must not gain rank. So a ranking names its attacks and its number of examples, counts an example
where it withstood all of these (and whatever else was run on some of the models counts for none of them), and lists
the models that lack something below, each with the reason.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from jaxrobust.evaluation.metrics.proportions import Proportion, proportion

Attacked = tuple[Proportion, np.ndarray | None, tuple[str, ...]]
"""Number, verdicts (None where only the number is known) and files of a model under one attack."""
Evidence = Mapping[str, Mapping[str, Attacked]]
"""Model to attack to what came out."""

MOST_SETS = 64
MOST_RANKINGS = 6


@dataclass(frozen=True)
class Ranking:
  """Models that were attacked alike.

  Attributes:
    attacks: that every ranked model went through.
    n: examples that count, the first ones of the data set.
    numbers: share of these that withstood all attacks, the best first.
    others: models that are not ranked, and why.
  """

  attacks: tuple[str, ...]
  n: int
  numbers: Mapping[str, Proportion]
  others: Mapping[str, str]

  def places(self) -> dict[str, int]:
    """Returns the rank of each model; equal numbers share one.

    >>> half, more = Proportion(0.5, 0.4, 0.6, 9), Proportion(0.7, 0.6, 0.8, 9)
    >>> Ranking(("linf-fgsm",), 9, {"a": more, "b": half, "c": half}, {}).places()
    {'a': 1, 'b': 2, 'c': 2}
    """
    return ranks_of({model: number.value for model, number in self.numbers.items()})


def ranks_of(values: Mapping[str, float]) -> dict[str, int]:
  """Returns the rank of each value among all, 1 the largest; equal ones share one.

  >>> ranks_of({"a": 0.5, "b": 0.7, "c": 0.5})
  {'a': 2, 'b': 1, 'c': 2}
  """
  falling = -np.sort(-np.array(list(values.values()), np.float64))
  return {model: 1 + int(np.searchsorted(-falling, -value)) for model, value in values.items()}


def rankings(evidence: Evidence, doubted: Mapping[str, str] | None = None) -> list[Ranking]:
  """Returns the rankings that a board allows, that of most models on most examples first.

  A set of attacks that some model, or two models together, went through is ranked by on that number n of examples for
  which (models ranked) × log2(n) is largest: a model more is not worth ten times fewer examples. Of rankings of the
  same models only the one with most attacks is kept.

  Args:
    evidence: what each model was attacked by.
    doubted: models that are ranked nowhere, and why.
  """
  doubted = doubted or {}
  evidence = {model: found for model, found in evidence.items() if model not in doubted}
  sets = Counter(frozenset(attacks) for attacks in evidence.values() if attacks)
  common = [attacks for attacks, _ in sets.most_common(MOST_SETS)]
  wanted = {one & other for one in common for other in common} - {frozenset()}
  found = [_rank(evidence, attacks) for attacks in wanted]
  found.sort(key=lambda r: (-len(r.numbers) * math.log2(r.n + 1), -len(r.attacks), -r.n, r.attacks))
  kept: list[Ranking] = []
  for ranking in found:
    covered = [one for one in kept if set(ranking.numbers) <= set(one.numbers) and ranking.n <= one.n]
    if not any(set(ranking.attacks) <= set(one.attacks) for one in covered):
      kept.append(ranking)
  return [replace(ranking, others={**ranking.others, **doubted}) for ranking in kept[:MOST_RANKINGS]]


def _rank(evidence: Evidence, attacks: frozenset[str]) -> Ranking:
  """Ranks by some attacks, on the number of examples that serves most."""
  having = {model: [found[name] for name in attacks] for model, found in evidence.items() if attacks <= set(found)}
  sizes = {model: min(number.n for number, _, _ in entries) for model, entries in having.items()}
  n = max(set(sizes.values()), key=lambda n: (sum(size >= n for size in sizes.values()) * math.log2(n + 1), n))
  numbers = {model: worst for model, entries in having.items() if (worst := worst_of(entries, n)) is not None}
  ordered = dict(sorted(numbers.items(), key=lambda item: (-item[1].value, item[0])))
  others = {model: _reason(found, attacks, n) for model, found in evidence.items() if model not in numbers}
  return Ranking(tuple(sorted(attacks)), n, ordered, others)


def worst_of(entries: Sequence[Attacked], n: int) -> Proportion | None:
  """Returns the share of the first n examples that no attack broke; None where that is not known.

  Where an attack has no verdicts (a published number), the least of the accuracies stands in, an upper bound, if all
  are about n examples.
  """
  flags = [flags for _, flags, _ in entries if flags is not None]
  if len(flags) == len(entries) and all(len(each) >= n for each in flags):
    return proportion(np.logical_and.reduce([each[:n] for each in flags]))
  if len(flags) < len(entries) and all(number.n == n for number, _, _ in entries):
    return min((number for number, _, _ in entries), key=lambda number: number.value)
  return None


def _reason(found: Mapping[str, Attacked], attacks: frozenset[str], n: int) -> str:
  """Says in a few words why a model is not ranked."""
  missing = sorted(attacks - set(found))
  if missing:
    return f"no {', '.join(missing)}" if missing != ["none"] else "no clean accuracy"
  few = {name: found[name][0].n for name in sorted(attacks) if found[name][0].n < n}
  if few:
    return ", ".join(f"{name} on {size:,} of {n:,} examples" for name, size in few.items())
  return f"published numbers, not of {n:,} examples"
