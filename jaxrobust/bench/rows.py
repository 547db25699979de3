"""What every bench prints: one row per measurement, and the clock they are taken with."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import jax

from jaxrobust.core.errors import InputError


@dataclass(frozen=True)
class Row:
  """One measurement.

  Attributes:
    name: what was measured.
    value, unit: our own figure.
    peer, peer_version: what it is compared with.
    ratio: how many times faster than the peer, measured in the same run.
    efficiency: time of the bare model evaluations that the algorithm needs, over the time it took.
    useful: fraction of the evaluated slots that worked on an undecided example.
  """

  name: str
  value: float
  unit: str
  peer: str | None = None
  peer_version: str | None = None
  ratio: float | None = None
  efficiency: float | None = None
  useful: float | None = None

  def as_dict(self) -> dict[str, Any]:
    return asdict(self)


def chosen(names: Iterable[str], only: str) -> list[str]:
  """Returns the names that contain `only`; an error where none does.

  >>> chosen(["resnet20 pgd", "cnn_a pgd", "cnn_a cw"], "cnn_a")
  ['cnn_a pgd', 'cnn_a cw']
  """
  names = list(names)
  found = [name for name in names if only in name]
  if not found:
    raise InputError(f"nothing here contains {only!r}: {', '.join(names)}")
  return found


def seconds(function: Callable[[], Any], repeats: int = 3) -> float:
  """Returns the shortest of some runs: neighbors on a shared machine only ever make a run longer."""
  best = float("inf")
  for _ in range(repeats):
    start = time.perf_counter()
    jax.block_until_ready(function())
    best = min(best, time.perf_counter() - start)
  return best


def typical(function: Callable[[], Any], repeats: int = 7) -> float:
  """Returns the median of some runs: what a long run, good and bad moments together, has to be compared with."""
  times = []
  for _ in range(repeats):
    start = time.perf_counter()
    jax.block_until_ready(function())
    times.append(time.perf_counter() - start)
  return statistics.median(times)


def alternate(functions: dict[str, Callable[[], Any]], repeats: int = 2) -> tuple[dict[str, float], dict[str, Any]]:
  """Runs contestants in turns, so that a noisy minute hurts all alike; best times and last results."""
  times = dict.fromkeys(functions, float("inf"))
  results: dict[str, Any] = {}
  for _ in range(repeats):
    for name, function in functions.items():
      start = time.perf_counter()
      results[name] = jax.block_until_ready(function())
      times[name] = min(times[name], time.perf_counter() - start)
  return times, results
