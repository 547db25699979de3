"""Cascades from flags: which attack to run next, by what it newly breaks for what it costs.

Given for each candidate attack which examples it breaks and what it spends on each, the next stage is the one with the
most newly broken examples per cost among the examples still standing (AutoAE: Liu, Peng and Tang 2022,
arXiv:2211.12713, section 4). For the mean cost until an example is broken this greedy order is at most four times the
best one, whatever the flags (pipelined set cover: Feige, Lovász and Tetali 2004; Munagala et al. 2005).

Costs are measured: an attack that breaks an example early has spent little on it. The authors count iterations of the
whole attack instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Choice(NamedTuple):
  """Is one stage of a cascade that was built.

  Attributes:
    candidate: its index.
    standing: examples that stand before it.
    newly: how many of these it breaks.
    cost: spent on all of them.
  """

  candidate: int
  standing: int
  newly: int
  cost: float


def choose_stages(broken: np.ndarray, cost: np.ndarray, budget: float = math.inf) -> list[Choice]:
  """Returns the stages of a greedy cascade; it ends where nothing new is broken, or nothing more fits the budget.

  Args:
    broken: (candidates, examples), whether each breaks each.
    cost: of the same shape, what each spends on each.
    budget: of an example that stands to the end; a candidate counts with the most that it spent on any.

  A breaks the first two of four examples at 10 each, B the first three at 20, C the last at 100 (10 where it breaks):
  A has 2/40, B 3/80; then B has 1/40, C 1/110; C is left.

  >>> broken = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1]], bool)
  >>> cost = np.array([[10] * 4, [20] * 4, [100, 100, 100, 10]], float)
  >>> [tuple(choice) for choice in choose_stages(broken, cost)]
  [(0, 4, 2, 40.0), (1, 2, 1, 40.0), (2, 1, 1, 10.0)]
  >>> [choice.candidate for choice in choose_stages(broken, cost, budget=40)]
  [0, 1]
  """
  standing = np.ones(broken.shape[1], bool)
  left, chosen = list(range(len(broken))), list[Choice]()
  most = cost.max(axis=1, initial=0.0)
  while True:
    offers = [
      Choice(index, int(standing.sum()), int((broken[index] & standing).sum()), float(cost[index][standing].sum()))
      for index in left
      if most[index] <= budget
    ]
    best = max(offers, key=_rate, default=None)
    if best is None or not best.newly:
      return chosen
    chosen.append(best)
    left.remove(best.candidate)
    standing &= ~broken[best.candidate]
    budget -= most[best.candidate]


def _rate(choice: Choice) -> float:
  """Returns newly broken examples per cost; of equals `max` takes the first."""
  return 0.0 if not choice.newly else choice.newly / choice.cost if choice.cost else math.inf


def order_by_yield(broken: np.ndarray, cost: np.ndarray, behind: Sequence[bool] | None = None) -> list[int]:
  """Returns the order in which stages break the most for the least; those that break nothing new keep theirs.

  Args:
    broken, cost: as in `choose_stages`.
    behind: stages that come after all others, in an order of their own.

  >>> broken = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0]], bool)
  >>> order_by_yield(broken, np.ones((3, 3))), order_by_yield(broken, np.ones((3, 3)), [False, False, True])
  ([2, 0, 1], [1, 0, 2])
  """
  later = np.zeros(len(broken), bool) if behind is None else np.asarray(behind, bool)
  standing = np.ones(broken.shape[1], bool)
  order: list[int] = []
  for part in (np.flatnonzero(~later), np.flatnonzero(later)):
    found = [int(part[one.candidate]) for one in choose_stages(broken[part][:, standing], cost[part][:, standing])]
    order += [*found, *(index for index in part.tolist() if index not in found)]
    standing &= ~broken[part].any(axis=0)
  return order


def cascade_cost(order: Sequence[int], broken: np.ndarray, cost: np.ndarray) -> float:
  """Returns what the stages spend on all examples in this order, each on what those before it leave standing.

  >>> broken, cost = np.array([[1, 0], [0, 1]], bool), np.array([[2, 5], [9, 1]], float)
  >>> cascade_cost([0, 1], broken, cost), cascade_cost([1, 0], broken, cost)
  (8.0, 12.0)
  """
  standing, total = np.ones(broken.shape[1], bool), 0.0
  for index in order:
    total += float(cost[index][standing].sum())
    standing &= ~broken[index]
  return total
