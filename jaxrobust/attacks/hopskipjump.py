"""HopSkipJump: the normal of the boundary from decisions, a step along it, and back to the boundary.

Chen et al. 2020 (arXiv:1904.02144). From a point x_t on the boundary at distance d_t of the image, in iteration t =
0, 1, …:
  probes     B_t = 100 sqrt(t + 1), at most 10,000: is the goal met at clip(x_t + δ u_i)? φ_i = ±1; u_i uniform on the
             sphere
  direction  v = Σ (φ_i - mean φ) u_i, with φ_i alone if all agree; u_i as it is after clipping; v/|v|_2 or, in linf,
             its sign
  step       x_t + ξ v, ξ = d_t / sqrt(t + 1), halved until the goal is met
  approach   bisected to the boundary: to γ d^(-3/2) of the way (l2; d pixels) or γ d^(-2) (linf)
δ is 0.1 at first and then γ d_t / d. Norms l2 (segment, Gaussian u_i) and linf (shrinking box, uniform u_i);
untargeted and targeted. Each step is one query: sums take in a probe at a time, so memory does not grow with B_t.

Defaults: γ 1, B 100 and 10,000 are the paper's; 20,000 queries stand for its 64 iterations and come before any number
of them. Deviations from foolbox: an image has a direction of its own (foolbox divides by the norm over the whole
batch, which makes steps too short for batches; compare at a batch of 1); bisections are counted, not compared, so
that they end in float32; no query is spent on looking again at what was just seen; after 20 halvings the direction is
estimated anew.
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

FIRST_DELTA = 0.1
HALVINGS = 20
# A float32 interval cannot be halved more often.
_MOST_BISECTIONS = 22


class HopSkipJumpState(NamedTuple):
  """The iteration.

  Attributes:
    approach: the way to the boundary, then x_t.
    number: questions so far.
    iteration: t.
    probes, agreed: probes so far, and how many of them met the goal.
    signed, plain: sums of ±u_i and of u_i; once a step is tried, `signed` is the estimate.
    halvings: of the step; -1 while probing.
  """

  approach: decision.Approach
  number: Array
  iteration: Array
  probes: Array
  agreed: Array
  signed: Array
  plain: Array
  halvings: Array


@ATTACKS.register("hopskipjump")
@dataclass(frozen=True)
class HopSkipJump(decision.DecisionAttack):
  """Boundary normals from decisions, step by step.

  Example:
    >>> HopSkipJump(queries=1000).num_steps, HopSkipJump(queries=1000).probe_counts()[:3]
    (1000, (100, 141, 173))
  """

  norm: str = "l2"
  queries: int = 20_000
  probes: int = 100
  most_probes: int = 10_000
  gamma: float = 1.0
  name: str = "hopskipjump"

  _norms: ClassVar[tuple[str, ...]] = ("l2", "linf")

  def probe_counts(self) -> tuple[int, ...]:
    """Returns B_t of the iterations that the queries may last for."""
    counts: list[int] = []
    while sum(counts) < self.queries:
      counts.append(int(min(self.probes * (len(counts) + 1) ** 0.5, self.most_probes)))
    return tuple(counts)

  def bisections(self, size: int) -> int:
    """Returns how often a way to the boundary is bisected, for images of `size` pixels."""
    tolerance = self.gamma * size ** (-2.0 if self.norm == "linf" else -1.5)
    return min(decision.bisections_to(min(tolerance, 0.5)), _MOST_BISECTIONS)

  def init(self, problem: Problem) -> HopSkipJumpState:
    zero, sums = jnp.zeros((), jnp.int32), jnp.zeros(problem.image.size)
    return HopSkipJumpState(decision.begin(problem), zero, zero, zero, zero, sums, sums, zero - 1)

  def step(self, model: LogitsFn, problem: Problem, state: HopSkipJumpState) -> tuple[HopSkipJumpState, Probe]:
    approach, image = state.approach, problem.image.ravel()
    bisections = self.bisections(image.size)
    arrived = approach.phase == decision.ARRIVED
    stepping = arrived & (state.halvings >= 0)
    values = decision.draw(problem.key, state.number, image.size)
    distance = approach.distance
    delta = jnp.where(state.iteration == 0, FIRST_DELTA, self.gamma * distance / image.size)
    reach = distance / jnp.sqrt(state.iteration + 1.0) * jnp.exp2(-jnp.maximum(state.halvings, 0).astype(jnp.float32))
    # One sum over the image for both: a step along the estimate, or a probe.
    if self.norm == "l2":
      move = decision.unit(jnp.where(stepping, state.signed, gaussian(values)))
    else:
      move = jnp.where(stepping, jnp.sign(state.signed), decision.unit(values))
    moved = jnp.clip(approach.point + jnp.where(stepping, reach, delta) * move, 0.0, 1.0)
    way = decision.approach_point(self.norm, problem, approach, state.number, values)
    point = jnp.where(arrived, moved, way)
    met = model(point.reshape(problem.image.shape))
    after, stuck = decision.approached(self.norm, problem, approach, state.number, point, met, bisections)
    jumps = stepping & met
    after = decision.choose(jumps, decision.approach_from(self.norm, problem, point, bisections), after)
    anew = jumps | (stepping & (state.halvings >= HALVINGS))
    state = self._probed(state, arrived & ~stepping, (point - approach.point) / (delta + 1e-8), met)
    state = state._replace(
      approach=after,
      number=state.number + 1,
      iteration=state.iteration + anew,
      signed=jnp.where(anew, 0.0, state.signed),
      halvings=jnp.where(anew, -1, state.halvings + (stepping & ~met)),
    )
    return state, Probe(point.reshape(problem.image.shape), met, queries=1, done=stuck)

  def _probed(self, state: HopSkipJumpState, probing: Array, noise: Array, met: Array) -> HopSkipJumpState:
    """Returns the state with the answer of a probe; after the last one the estimate is in place of the sum."""
    sign = jnp.where(met, 1.0, -1.0)
    probes, agreed = state.probes + 1, state.agreed + met
    signed, plain = state.signed + sign * noise, state.plain + noise
    enough = probes >= jnp.asarray(np.array(self.probe_counts(), np.int32))[state.iteration]
    ready = estimate(signed, plain, probes, agreed)
    return state._replace(
      probes=jnp.where(probing, jnp.where(enough, 0, probes), state.probes),
      agreed=jnp.where(probing, jnp.where(enough, 0, agreed), state.agreed),
      signed=jnp.where(probing, jnp.where(enough, ready, signed), state.signed),
      plain=jnp.where(probing, jnp.where(enough, 0.0, plain), state.plain),
      halvings=jnp.where(probing & enough, 0, state.halvings),
    )


def estimate(signed: Array, plain: Array, probes: Array, agreed: Array) -> Array:
  """Returns the boundary's normal, of any length, from sums over the probes."""
  mean = 2.0 * agreed / probes - 1.0
  return jnp.where(jnp.abs(mean) == 1.0, signed, signed - mean * plain)
