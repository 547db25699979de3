"""The yardstick: what one bare evaluation of the model costs per image, at its best batch size."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxrobust.bench.rows import seconds, typical
from jaxrobust.bench.workloads import Workload, spread
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.types import Array
from jaxrobust.engine.example import EngineStats
from jaxrobust.training.state import as_variables

BATCHES = (16, 32, 64, 128)


class BareCost(NamedTuple):
  """The seconds per image of a forward pass, and of a forward pass with its input gradient."""

  forward: float
  gradient: float

  def needed(self, stats: EngineStats) -> float:
    """Returns the seconds that the evaluations of a run need at the least: attack steps, clean pass, verification."""
    plain = stats.forwards - stats.backwards + stats.judged
    return stats.backwards * self.gradient + plain * self.forward


def between(before: BareCost, after: BareCost) -> BareCost:
  """Returns the mean of the costs measured before and after a run: the machine may not be the same all the time."""
  return BareCost(*((one + other) / 2 for one, other in zip(before, after, strict=True)))


@jax.jit
def bare_logits(classifier: Classifier, images: Array) -> Array:
  """Makes a forward pass and nothing else."""
  return classifier(images)


@jax.jit
def bare_gradient(classifier: Classifier, images: Array, labels: Array) -> Array:
  """Makes a forward pass and the input gradient of its cross-entropy, and nothing else."""

  def loss(x: Array) -> Array:
    chosen = jnp.take_along_axis(jax.nn.log_softmax(classifier(x)), labels[:, None], axis=1)
    return -jnp.sum(chosen)

  return jax.grad(loss)(images)


def bare_forward(work: Workload, batches: tuple[int, ...] = BATCHES) -> dict[int, float]:
  """Returns the seconds per image of a forward pass alone, by the batch size, for as many images as there are."""
  times = {}
  for batch in batches:
    if len(work.images) >= batch:
      classifier, images = spread(work.classifier, work.images[:batch])
      run = functools.partial(bare_logits, classifier, images)
      seconds(run, 1)
      times[batch] = typical(run) / batch
  return times


def bare_cost(work: Workload) -> BareCost:
  """Measures both at several batch sizes and keeps the cheapest."""
  forward, gradient = [], []
  for batch in BATCHES:
    if len(work.images) < batch:
      break
    classifier, (images, labels) = spread(work.classifier, (work.images[:batch], work.labels[:batch]))
    run_forward = functools.partial(bare_logits, classifier, images)
    run_gradient = functools.partial(bare_gradient, classifier, images, labels)
    seconds(run_forward, 1), seconds(run_gradient, 1)
    forward.append(typical(run_forward) / batch)
    gradient.append(typical(run_gradient) / batch)
  return BareCost(min(forward), min(gradient))


def initial_variables(module: Any, shape: tuple[int, ...]) -> Any:
  """Returns untrained weights."""
  return jax.jit(module.init)(jax.random.key(0), jnp.zeros((1, *shape)))


def bare_parts(module: Any, optimizer: Any, rows: tuple[np.ndarray, ...]) -> dict[str, Callable[[], Any]]:
  """Returns what training steps are made of, each evaluation alone: the batch split over devices as in a step."""
  initial = initial_variables(module, rows[0].shape[1:])
  (variables, opt_state), (pixels, classes) = spread(
    (initial, optimizer.init(initial["params"])), (rows[0].astype(np.float32) / 255, rows[1])
  )
  params, stats = variables["params"], variables.get("batch_stats", {})

  def mean_loss(logits: Array, classes: Array) -> Array:
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, classes))

  def evaluated(x: Array, variables: Any, classes: Array) -> Array:
    return mean_loss(module.apply(variables, x), classes)

  def trained(params: Any, x: Array, classes: Array) -> Array:
    return mean_loss(module.apply(as_variables(params, stats), x, train=True, mutable=["batch_stats"])[0], classes)

  def update(params: Any, grads: Any, opt_state: Any) -> Any:
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state

  programs: dict[str, tuple[Any, tuple]] = {
    "forward": (jax.jit(module.apply), (variables, pixels)),
    "inputs": (jax.jit(jax.grad(evaluated)), (pixels, variables, classes)),
    "params": (jax.jit(jax.grad(trained)), (params, pixels, classes)),
    "coupled": (jax.jit(jax.grad(trained, argnums=1)), (params, pixels, classes)),
    "updates": (jax.jit(update), (params, params, opt_state)),
  }
  return {name: functools.partial(program, *arguments) for name, (program, arguments) in programs.items()}
