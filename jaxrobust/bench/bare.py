"""The yardstick: what one bare evaluation of the model costs per image, at its best batch size."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrobust.bench.rows import seconds, typical
from jaxrobust.bench.workloads import Workload
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.types import Array
from jaxrobust.engine.verdict import EngineStats

_BATCHES = (16, 32, 64, 128)


class BareCost(NamedTuple):
  """Seconds per image of a forward pass, and of a forward pass with its input gradient."""

  forward: float
  gradient: float

  def needed(self, stats: EngineStats) -> float:
    """Seconds that the evaluations of a run need at the least: attack steps, clean pass, verification."""
    plain = stats.forwards - stats.backwards + stats.judged
    return stats.backwards * self.gradient + plain * self.forward


def between(before: BareCost, after: BareCost) -> BareCost:
  """The mean of the costs measured before and after a run: the machine may not be the same all the time."""
  return BareCost(*((one + other) / 2 for one, other in zip(before, after, strict=True)))


@jax.jit
def _forward(classifier: Classifier, images: Array) -> Array:
  return classifier(images)


@jax.jit
def _gradient(classifier: Classifier, images: Array, labels: Array) -> Array:
  def loss(x: Array) -> Array:
    chosen = jnp.take_along_axis(jax.nn.log_softmax(classifier(x)), labels[:, None], axis=1)
    return -jnp.sum(chosen)

  return jax.grad(loss)(images)


def bare_cost(work: Workload) -> BareCost:
  """Measures both at several batch sizes and keeps the cheapest."""
  forward, gradient = [], []
  for batch in _BATCHES:
    images, labels = jnp.asarray(work.images[:batch]), jnp.asarray(work.labels[:batch])
    if len(images) < batch:
      break
    run_forward = lambda images=images: _forward(work.classifier, images)
    run_gradient = lambda images=images, labels=labels: _gradient(work.classifier, images, labels)
    seconds(run_forward, 1), seconds(run_gradient, 1)
    forward.append(typical(run_forward) / batch)
    gradient.append(typical(run_gradient) / batch)
  return BareCost(min(forward), min(gradient))
