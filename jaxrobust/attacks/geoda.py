"""GeoDA: the boundary as a plane, whose normal is estimated from decisions in few dimensions.

Rahmati et al. 2020 (arXiv:2003.06468). From a point x_k on the boundary, in iteration k = 0, 1, …:
  probes     N_k of them: is the goal met at clip(x_k + σ z)? z is Gaussian in the span of the `frequencies`² lowest
             cosines
             of each channel
  direction  w ← w + Σ ±z, over all iterations so far; v = w/|w|_2 or, in linf, its sign
  approach   from the image itself along v: at 1.2 times the distance of x_k, which grows by half until the goal is met
             (up to 12 times; then the iteration is lost), and bisected to the boundary
N_k grows by λ^(-2/3) from iteration to iteration, with as many iterations as leave at most 80 probes to the first.

Norms l2 and linf; untargeted and, by the same rule, targeted (the authors: untargeted). One query per step. Defaults
(75 frequencies for ImageNet, which are all of smaller images, σ 2e-4, λ 0.6) are the authors'. Deviations: all probes
count alike in w, where the authors add the means of iterations, so that the few of the first count as much as the
many of the last; points are bisected to 6e-5 of the way, since σ tells nothing of a boundary that is farther away
than itself; the authors walk out along v in steps of fixed length, up to 100 of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks import decision
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.core.threefry import gaussian
from jaxrobust.core.types import Array, LogitsFn, Probe, Problem

BISECTIONS = 14
# The first iteration has at most so many probes, and each iteration sets some queries aside for its approach.
FIRST_PROBES, APPROACH_QUERIES = 80, 16
BEYOND, GROWTH, WALKS = 1.2, 1.5, 12


class GeoDAState(NamedTuple):
  """The iteration.

  Attributes:
    approach: the way to the boundary, then x_k.
    number: questions so far.
    iteration: k.
    probes: of this iteration, so far.
    total: the sum of ±z of this iteration.
    normal: w of the iterations before.
    walks: points along v that did not meet the goal; -1 while probing.
  """

  approach: decision.Approach
  number: Array
  iteration: Array
  probes: Array
  total: Array
  normal: Array
  walks: Array


@ATTACKS.register("geoda")
@dataclass(frozen=True)
class GeoDA(decision.DecisionAttack):
  """Normals of the boundary in few dimensions.

  Example:
    >>> GeoDA(queries=500).probe_counts()
    (58, 82, 115, 162)
  """

  norm: str = "l2"
  queries: int = 20_000
  frequencies: int = 75
  sigma: float = 2e-4
  growth: float = 0.6
  name: str = "geoda"
  _norms: ClassVar[tuple[str, ...]] = ("l2", "linf")

  def probe_counts(self) -> tuple[int, ...]:
    """Returns N_k of all iterations."""
    iterations, first = 0, float("inf")
    while first > FIRST_PROBES:
      iterations += 1
      shares = self.growth ** (-2.0 / 3.0 * np.arange(iterations))
      first = max(self.queries - APPROACH_QUERIES * (iterations + 1), 1) / shares.sum()
    return tuple(max(int(first * share), 1) for share in shares)

  def init(self, problem: Problem) -> GeoDAState:
    zero, none = jnp.zeros((), jnp.int32), jnp.zeros(problem.image.size)
    return GeoDAState(decision.begin(problem), zero, zero, zero, none, none, zero - 1)

  def step(self, model: LogitsFn, problem: Problem, state: GeoDAState) -> tuple[GeoDAState, Probe]:
    approach, image = state.approach, problem.image.ravel()
    arrived = approach.phase == decision.ARRIVED
    walking = arrived & (state.walks >= 0)
    probing = arrived & ~walking
    values = decision.draw(problem.key, state.number, image.size)
    noise = smooth(gaussian(values).reshape(problem.image.shape), self.frequencies).ravel()
    straight = decision.unit(state.normal) if self.norm == "l2" else jnp.sign(state.normal)
    reach = approach.distance * BEYOND * GROWTH ** jnp.maximum(state.walks, 0)
    moved = jnp.where(walking, image + reach * straight, approach.point + self.sigma * noise)
    way = decision.approach_point(self.norm, problem, approach, state.number, values)
    point = jnp.where(arrived, jnp.clip(moved, 0.0, 1.0), way)
    met = model(point.reshape(problem.image.shape))
    after, stuck = decision.approached(self.norm, problem, approach, state.number, point, met, BISECTIONS)
    returns = walking & met
    after = decision.choose(returns, decision.approach_from(self.norm, problem, point, BISECTIONS), after)
    counts = np.array(self.probe_counts(), np.int32)
    enough = probing & (state.probes + 1 >= jnp.asarray(counts)[jnp.minimum(state.iteration, len(counts) - 1)])
    total = state.total + jnp.where(probing, jnp.where(met, 1.0, -1.0), 0.0) * noise
    ends = returns | (walking & (state.walks + 1 >= WALKS))
    state = GeoDAState(
      approach=after,
      number=state.number + 1,
      iteration=state.iteration + ends,
      probes=jnp.where(enough, 0, state.probes + probing),
      total=jnp.where(enough, 0.0, total),
      normal=state.normal + jnp.where(enough, total, 0.0),
      walks=jnp.where(ends, -1, state.walks + (enough | (walking & ~met))),
    )
    return state, Probe(point.reshape(problem.image.shape), met, queries=1, done=stuck)


def smooth(noise: Array, frequencies: int) -> Array:
  """Returns Gaussian noise in the span of the lowest cosines, from as much of (H, W, C) numbers as that takes."""
  height, width, _ = noise.shape
  down, across = min(frequencies, height), min(frequencies, width)
  if (down, across) == (height, width):  # An orthogonal transform of Gaussian noise is Gaussian noise.
    return noise
  rows, columns = jnp.asarray(cosines(height)[:down]), jnp.asarray(cosines(width)[:across])
  return jnp.einsum("uvc,ui,vj->ijc", noise[:down, :across], rows, columns)


def cosines(size: int) -> np.ndarray:
  """Returns the orthonormal cosines (DCT-II) of a length, lowest first, a row each.

  >>> bool(np.allclose(cosines(5) @ cosines(5).T, np.eye(5), atol=1e-6))
  True
  """
  frequency, place = np.mgrid[:size, :size]
  waves = np.cos(np.pi / size * (place + 0.5) * frequency) * np.sqrt(2.0 / size)
  waves[0] /= np.sqrt(2.0)
  return waves.astype(np.float32)
