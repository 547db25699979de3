"""What the next line of a run's log is about: the steps since the last one.

Its sums are part of checkpoints, so that a line that was cut off by a stop is, in the end, the line it would have been.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import jax
import numpy as np
from clu import metrics as clu_metrics

from jaxrobust.training.step import StepMetrics


class Window:
  """Sums and counts over some steps, and the time that they took here."""

  def __init__(self, sums: list[float]):
    self._metrics = metrics_of(sums)
    self._since, self._waited, self._steps = time.monotonic(), 0.0, 0

  @property
  def sums(self) -> list[float]:
    """Plain numbers, without loss of a bit, for `Window(sums)`; reading them waits for the step."""
    return [float(leaf) for leaf in jax.tree.leaves(self._metrics)]

  def add(self, metrics: clu_metrics.Collection, waited: float) -> None:
    """One more step, which waited so long for its data."""
    self._metrics = self._metrics.merge(metrics)
    self._waited, self._steps = self._waited + waited, self._steps + 1

  @contextlib.contextmanager
  def paused(self) -> Iterator[None]:
    """Time that no step takes."""
    start = time.monotonic()
    try:
      yield
    finally:
      self._since += time.monotonic() - start

  def line(self, batch_size: int) -> dict[str, float]:
    """Means over the window, and how fast its steps were made since this process began it."""
    seconds = max(time.monotonic() - self._since, 1e-9)
    values = {name: float(value) for name, value in self._metrics.compute().items()}
    speed = {
      "seconds": seconds,
      "step_seconds": seconds / self._steps,
      "images_per_second": self._steps * batch_size / seconds,
      "data_wait": self._waited / seconds,
    }
    return values | {name: round(value, 4) for name, value in speed.items()}


def metrics_of(sums: list[float]) -> clu_metrics.Collection:
  """Metrics that go on from `sums`; none at all is nothing seen yet."""
  leaves, tree = jax.tree.flatten(StepMetrics.empty())
  sums = sums or [0.0] * len(leaves)
  return jax.tree.unflatten(tree, [np.asarray(value, leaf.dtype) for value, leaf in zip(sums, leaves, strict=True)])
