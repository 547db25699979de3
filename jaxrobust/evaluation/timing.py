"""The cost of a cell, written beside it: seconds, throughput, evaluations, and how many of them were needed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jaxrobust.core.errors import JaxrobustError
from jaxrobust.core.reading import read_json
from jaxrobust.engine.scheduler import Engine
from jaxrobust.results.store import TIMING, sibling

# What adds up over processes that work side by side.
_TOTALS = ("slot_steps", "forwards", "backwards", "judged", "dispatches", "waited", "slots", "devices")


def timing_of(engine: Engine, seconds: float, count: int) -> dict[str, Any]:
  """Returns the cost of `count` examples."""
  stats = engine.stats
  return {
    "seconds": seconds,
    "images_per_second": count / max(seconds, 1e-9),
    "useful_fraction": stats.useful_steps / stats.slot_steps if stats.slot_steps else None,
    "slot_steps": stats.slot_steps,
    "forwards": stats.forwards,
    "backwards": stats.backwards,
    "judged": stats.judged,
    "dispatches": stats.dispatches,
    "waited": stats.waited,
    "slots": engine.slots,
    "devices": engine.options.devices.size,
  }


def merge_timings(paths: Iterable[Path], count: int) -> dict[str, Any] | None:
  """Joins the costs beside the shards of a cell of `count` examples: the longest time, the sum of all work."""
  found = [timing for timing in map(_read, paths) if timing]
  if not found:
    return None
  seconds = max(timing["seconds"] for timing in found)
  merged = {"seconds": seconds, "images_per_second": count / max(seconds, 1e-9), "processes": len(found)}
  merged |= {name: sum(timing[name] for timing in found) for name in _TOTALS if all(name in timing for timing in found)}
  steps = merged.get("slot_steps")
  if steps is not None:
    useful = sum(timing["slot_steps"] * (timing["useful_fraction"] or 0.0) for timing in found)
    merged["useful_fraction"] = useful / steps if steps else None
  return merged


def _read(path: Path) -> dict[str, Any]:
  try:
    timing = read_json(sibling(path, TIMING))
    return timing if isinstance(timing["seconds"], int | float) else {}
  except (JaxrobustError, KeyError, TypeError):  # Missing or damaged; no verdict depends on it.
    return {}
