"""BANANAS: search led by an ensemble of neural predictors (White et al. 2021, arXiv:1910.11858), all runs at once.

Rounds of ten queries. In each, small networks learn the value of a cell from what the run has seen; mutations of its
best cells are candidates; the ensemble's mean and deviation give each candidate a value drawn at random (independent
Thompson sampling), and the ten best are looked up.

The predictors of all runs, ensemble members and objectives are one batch: a jitted loop of Adam steps on minibatches
serves them together, which is what makes a hundred runs a matter of seconds.

From NASLib: 10 cells to start, 10 per round, 3 members, 50 candidates. Ours: predictors of two hidden layers of 20 that
go on learning from round to round (theirs have twenty layers and start afresh); the operations by edge, one-hot, where
theirs see paths; candidates are mutations of the ten best cells, without what was looked up already (theirs mutate one
or two and may ask again).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.core.nas_cells import OPERATIONS, all_cells
from jaxrobust.core.types import Array
from jaxrobust.nas.pareto import Scale
from jaxrobust.nas.search import Landscape

WIDTH, MINIBATCH, LEARNING_RATE = 20, 32, 0.01
Params = list[tuple[Array, Array]]


@functools.cache
def one_hot() -> np.ndarray:
  """Returns (15625, 30) flags of each cell, by edge and operation."""
  return np.eye(len(OPERATIONS), dtype=np.float32)[all_cells()].reshape(len(all_cells()), -1)


def bananas(
  landscape: Landscape,
  generators: Sequence[np.random.Generator],
  queries: int,
  num_start: int = 10,
  per_round: int = 10,
  members: int = 3,
  candidates: int = 50,
  parents: int = 10,
  steps: int = 60,
) -> np.ndarray:
  """Searches with predictors.

  Args:
    landscape: to search.
    generators: one per run.
    queries: of each run.
    num_start: random cells of each run.
    per_round: cells looked up between two trainings.
    members: of an ensemble.
    candidates: cells whose value is predicted.
    parents: best cells, by the round's weights, whose mutations are candidates.
    steps: of the optimizer in each round, in twenties; ten times as many in the first.

  Returns:
    (runs, queries) cells.
  """
  if members < 2 or steps < 20:
    raise InputError(f"BANANAS needs 2 members and 20 steps at least, got {members} and {steps}")
  runs, objectives = len(generators), landscape.values.shape[1]
  asked = [[landscape.draw(rng) for _ in range(min(num_start, queries))] for rng in generators]
  state = _start(int(generators[0].integers(2**31)), runs * objectives * members)
  while len(asked[0]) < queries:
    seen = np.array(asked)
    state = _train(state, landscape, seen, queries, members, steps * (10 if seen.shape[1] == num_start else 1))
    scales = [Scale.draw(rng, landscape.values[cells]) for rng, cells in zip(generators, seen, strict=True)]
    runs_scales = zip(generators, scales, seen, strict=True)
    pools = np.array([_candidates(landscape, *parts, candidates, parents) for parts in runs_scales])
    mean, deviation = _predict(state[0], landscape, seen, pools, members)
    count = min(per_round, queries - seen.shape[1])
    for run, (rng, scale) in enumerate(zip(generators, scales, strict=True)):
      drawn = scale(mean[run] + deviation[run] * rng.normal(size=mean[run].shape))
      asked[run] += pools[run][np.argsort(-drawn, kind="stable")[:count]].tolist()
  return np.array(asked)


def _candidates(
  landscape: Landscape, rng: np.random.Generator, scale: Scale, seen: np.ndarray, count: int, parents: int
) -> np.ndarray:
  """Returns cells next to the best ones seen, not looked up yet; random ones where there are too few."""
  cells = np.unique(seen)
  best = cells[np.argsort(-scale(landscape.values[cells]), kind="stable")[:parents]]
  near = np.unique(np.concatenate([landscape.around(cell) for cell in best]))
  near = near[~np.isin(near, cells, assume_unique=True)]
  chosen = rng.permutation(near)[:count]
  return np.append(chosen, [landscape.draw(rng) for _ in range(count - len(chosen))]).astype(int)


def _start(seed: int, count: int) -> tuple[Params, Any]:
  """Returns predictors and their optimizer's moments; the state of `_fit`."""
  sizes = (one_hot().shape[1], WIDTH, WIDTH, 1)
  rng = np.random.default_rng(seed)
  draw = lambda inputs, outputs: rng.normal(size=(count, inputs, outputs)) * np.sqrt(2 / inputs)
  layers = [
    (jnp.asarray(draw(*shape), jnp.float32), jnp.zeros((count, 1, shape[1]))) for shape in itertools.pairwise(sizes)
  ]
  zeros = jax.tree.map(jnp.zeros_like, layers)
  return layers, (zeros, zeros, jnp.zeros((), jnp.int32), jnp.asarray(seed, jnp.uint32))


def _targets(landscape: Landscape, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Standardizes what each run has seen, (runs, N, K); returns means and deviations, (runs, 1, K), too."""
  values = landscape.values[seen]
  mean, deviation = values.mean(axis=1, keepdims=True), values.std(axis=1, keepdims=True)
  deviation = np.where(deviation > 0, deviation, 1.0)
  return (values - mean) / deviation, mean, deviation


def _train(
  state: tuple[Params, Any], landscape: Landscape, seen: np.ndarray, room: int, members: int, steps: int
) -> tuple[Params, Any]:
  """Takes Adam steps on what has been seen; padded to `room`, so that one program serves all rounds."""
  targets = _targets(landscape, seen)[0].transpose(0, 2, 1)  # (runs, objectives, N)
  count = targets.shape[-1]
  padded = np.zeros((*targets.shape[:2], room), np.float32)
  padded[..., :count] = targets
  cells = np.zeros((len(seen), room), np.int32)
  cells[:, :count] = seen
  for _ in range(steps // 20):
    state = _fit(state, jnp.asarray(one_hot()), jnp.asarray(cells), jnp.asarray(padded), count, members)
  return state


def _forward(params: Params, features: Array) -> Array:
  """Maps (M, N, 30) features of cells to (M, N) values."""
  for index, (kernel, bias) in enumerate(params):
    features = features @ kernel + bias
    features = jax.nn.relu(features) if index < len(params) - 1 else features
  return features[..., 0]


@functools.partial(jax.jit, static_argnames="members")
def _fit(
  state: tuple[Params, Any], features: Array, cells: Array, targets: Array, count: Array, members: int
) -> tuple[Params, Any]:
  """Takes twenty Adam steps (Kingma & Ba 2015) for every predictor, each on a minibatch of its own."""
  runs, objectives, _ = targets.shape
  per_run = objectives * members
  flat = jnp.repeat(targets.reshape(runs * objectives, -1), members, axis=0)

  def loss(params: Params, rows: Array) -> Array:
    inputs = features[jnp.take_along_axis(jnp.repeat(cells, per_run, axis=0), rows, axis=1)]
    wanted = jnp.take_along_axis(flat, rows, axis=1)
    return jnp.sum(jnp.mean(jnp.square(_forward(params, inputs) - wanted), axis=1))

  def step(state: tuple[Params, Any], _: None) -> tuple[tuple[Params, Any], None]:
    params, (first, second, number, seed) = state
    key = jax.random.fold_in(jax.random.key(seed), number)
    rows = jax.random.randint(key, (runs * per_run, MINIBATCH), 0, count)
    gradient = jax.grad(loss)(params, rows)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradient)
    time = (number + 1).astype(jnp.float32)
    size = LEARNING_RATE * jnp.sqrt(1 - 0.999**time) / (1 - 0.9**time)
    params = jax.tree.map(lambda p, m, v: p - size * m / (jnp.sqrt(v) + 1e-8), params, first, second)
    return (params, (first, second, number + 1, seed)), None

  return jax.lax.scan(step, state, None, length=20)[0]


_values = jax.jit(_forward)


def _predict(
  params: Params, landscape: Landscape, seen: np.ndarray, pools: np.ndarray, members: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns mean and deviation over the ensemble, (runs, candidates, objectives), in the units of the objectives."""
  _, center, unit = _targets(landscape, seen)
  runs, objectives = len(seen), center.shape[-1]
  features = np.repeat(one_hot()[pools], objectives * members, axis=0)
  values = np.asarray(_values(params, features)).reshape(runs, objectives, members, -1)
  mean, deviation = (part.transpose(0, 2, 1) for part in (values.mean(axis=2), values.std(axis=2, ddof=1)))
  return mean * unit + center, deviation * unit
