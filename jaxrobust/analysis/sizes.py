"""The cost of networks in multiply-adds, which papers call FLOPs, for architectures of this package."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

# A head for other classes changes the parameters this much at most; what differs more was built with options.
TOLERANCE = 0.2


def with_flops(about: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
  """Adds `flops` to what is known of models, where their architecture is registered and has about their parameters."""
  return {model: {**known, "flops": _flops(known)} for model, known in about.items()}


def _flops(known: Mapping[str, Any]) -> int | None:
  if type(known.get("flops")) is int:
    return known["flops"]
  arch, params = known.get("arch"), known.get("params")
  size = _count(arch) if isinstance(arch, str) and type(params) is int else None
  return size[1] if size is not None and abs(size[0] - params) <= TOLERANCE * params else None  # type: ignore[operator]


@functools.cache
def _count(arch: str) -> tuple[int, int] | None:
  """Counts parameters and multiply-adds of one image by tracing shapes alone; None for other people's networks."""
  from jaxrobust.models.registry import MODELS, count_flops, count_params

  if arch not in MODELS:
    return None
  try:
    return count_params(arch), count_flops(arch)
  except Exception:  # A network that cannot be traced at its usual size costs a point in a plot, no more.
    return None
