"""Square Attack: random search with square-shaped changes, from scores alone.

Andriushchenko et al. 2020 (arXiv:1912.00049):
  candidate = best perturbation with a random s×s window changed; kept if the margin loss rises or the goal is met
  s         = sqrt(p·H·W), with p = p_init halved after 10, 50, 200, 500, 1000, 2000, 4000, 6000 and 8000 queries

linf starts from vertical stripes of ±eps and sets a window to +eps or -eps per channel. l2 and l1 start from a 5×5
grid of bumps; a window gets a new bump, on top of what is there, with the norm that it held plus that of a
second window, which is emptied (l1: Croce and Hein 2021, arXiv:2103.01208). Norms l1, l2, linf; untargeted, and
targeted by the margin of the target. Each step costs one forward pass and no gradient; the side s is traced and
windows are masks, so all phases share one program.

Defaults and sources: p_init 0.8, margin loss, 5000 queries and no rescaling of the schedule are AutoAttack's
(arXiv:2003.01690). `rescale` stretches the schedule's 10,000 queries over num_steps, as the paper does.
`edges` draws windows at all places; the authors' code, unlike the paper's text, never draws one that touches the
last row or column. Off by default for parity; with it the attack is stronger (Fashion-MNIST, 1000 queries: 0.6 points).
Known deviations from the authors' code: windows and linf signs are drawn per image, where theirs share them in a
batch; the starting point is the first of num_steps queries, where theirs comes on top.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks import losses, norms
from jaxrobust.attacks.registry import ATTACKS, check_steps
from jaxrobust.core.budget import check_norm
from jaxrobust.core.errors import InputError
from jaxrobust.core.threat import by_norm
from jaxrobust.core.types import Array, Cost, LogitsFn, Probe, Problem

_HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
_TINY = 1e-12


class SquareState(NamedTuple):
  """The best point with its loss, the candidate to evaluate next, and the queries made."""

  best: Array
  loss: Array
  candidate: Array
  step: Array


class Window(NamedTuple):
  """A square of traced side and place: its mask (H, W, 1) and each row's and column's offset inside it."""

  mask: Array
  rows: Array
  columns: Array


@ATTACKS.register("square")
@dataclass(frozen=True)
class Square:
  """Random search over square windows.

  Example:
    >>> Square(norm="l2").cost, side_table(Square(), 32, 32)[:4]
    (Cost(forward=1, backward=0, parallel=1), (29, 20, 14, 10))
  """

  norm: str = "linf"
  num_steps: int = 5000
  p_init: float = 0.8
  rescale: bool = False
  edges: bool = False
  loss: str = "margin"
  name: str = "square"
  threat = by_norm
  minimal = False
  access = "score"
  cost = Cost(forward=1, backward=0)

  def __post_init__(self) -> None:
    check_norm(self.norm)
    check_steps(self.num_steps)
    if not 0.0 < self.p_init <= 1.0:
      raise InputError(f"p_init is the fraction of the image that changes at first: in (0, 1], got {self.p_init}")

  def init(self, problem: Problem) -> SquareState:
    start = _stripes(problem) if self.norm == "linf" else _grid(self.norm, problem)
    return SquareState(start, jnp.full((), -jnp.inf), start, jnp.zeros((), jnp.int32))

  def step(self, model: LogitsFn, problem: Problem, state: SquareState) -> tuple[SquareState, Probe]:
    logits = model(state.candidate)
    probe = Probe(state.candidate, logits, queries=1)
    loss = losses.bind(self.loss, problem)(logits)
    success = losses.margin(logits, problem.label, problem.target) >= 0
    accept = (loss > state.loss) | success
    best = jnp.where(accept, state.candidate, state.best)
    height, width, channels = best.shape
    side = self._side(state.step, height, width)
    # One draw serves all: two places, which way the bump lies, a sign per channel.
    draw = jax.random.uniform(jax.random.fold_in(problem.key, state.step + 1), (5 + channels,))
    sign = jnp.where(draw[5:] < 0.5, -1.0, 1.0)
    first = _window(draw[:2], side, height, width, self.edges)
    if self.norm == "linf":
      moved = best + 2 * problem.eps * jnp.where(first.mask, sign, 0.0)
      candidate = norms.project("linf", moved, problem.image, problem.eps)
    else:
      second = _window(draw[2:4], side, height, width, self.edges)
      bump = _bump(self.norm, first, side, draw[4] < 0.5) * sign
      candidate = _shift(self.norm, problem, best, first, second, bump)
    state = SquareState(best, jnp.where(accept, loss, state.loss), candidate, state.step + 1)
    return state, probe

  def _side(self, step: Array, height: int, width: int) -> Array:
    """Returns the side of the window after `step` queries: a look into a table of ten."""
    query = step * 10_000 // self.num_steps if self.rescale else step
    phase = jnp.sum(query > jnp.array(_HALVINGS))
    return jnp.array(side_table(self, height, width))[phase]


def side_table(attack: Square, height: int, width: int) -> tuple[int, ...]:
  """Returns the side in each phase; l2 and l1 want odd ones, of at least 3."""
  sides = []
  for phase in range(len(_HALVINGS) + 1):
    side = max(round(math.sqrt(attack.p_init / 2**phase * height * width)), 1 if attack.norm == "linf" else 3)
    side += attack.norm != "linf" and side % 2 == 0
    sides.append(min(side, height, width))
  return tuple(sides)


def _stripes(problem: Problem) -> Array:
  """Returns vertical stripes of ±eps, a sign for each column and channel."""
  _, width, channels = problem.image.shape
  sign = jax.random.rademacher(jax.random.fold_in(problem.key, 0), (1, width, channels), dtype=jnp.float32)
  return norms.project("linf", problem.image + problem.eps * sign, problem.image, problem.eps)


def _window(draw: Array, side: Array, height: int, width: int, edges: bool) -> Window:
  """Returns a window of the given side at a place chosen by two numbers in [0, 1)."""
  places = jnp.array([height, width]) - side + edges
  # The product may round up to `places` itself.
  top, left = jnp.clip((draw * places).astype(jnp.int32), 0, jnp.maximum(places - 1, 0))
  rows, columns = jnp.arange(height) - top, jnp.arange(width) - left
  inside = ((rows >= 0) & (rows < side))[:, None] & ((columns >= 0) & (columns < side))[None, :]
  return Window(inside[..., None], rows, columns)


def _heights(norm: str, size: int) -> Array:
  """Returns Σ_{i<=n} 1/i² (l2) or 1/i⁴ (l1) for n = 0, …, size: a bump is a stack of squares that thin out."""
  power = 2 if norm == "l2" else 4
  terms = 1.0 / np.arange(1, size + 1, dtype=np.float64) ** power
  return jnp.array(np.concatenate([[0.0], np.cumsum(terms)]), jnp.float32)


def _bump(norm: str, window: Window, side: Array, lying: Array) -> Array:
  """Returns η of the paper: one half of the window rises to its middle, the other falls; norm 1. Shape (H, W, 1).

  A half of h rows has its peak in row h//2, column side//2, and at Chebyshev distance m from there the value
  Σ_{m<i<=side//2+1} 1/i^p. It falls with m = max(row, column distance), so it is the smaller of two profiles.
  """
  table = _heights(norm, max(window.rows.shape[0], window.columns.shape[0]) // 2 + 2)
  half, top = side // 2, table[side // 2 + 1]

  def profile(offset: Array, peak: Array) -> Array:
    return top - table[jnp.clip(jnp.abs(offset - peak), 0, half + 1)]

  def pair(across: Array, along: Array) -> Array:
    side_profile = profile(along, half)[None, :]
    upper = jnp.minimum(profile(across, half // 2)[:, None], side_profile)
    lower = jnp.minimum(profile(across, half + (side - half) // 2)[:, None], side_profile)
    within = ((across >= 0) & (across < side))[:, None] & ((along >= 0) & (along < side))[None, :]
    first = (across < half)[:, None]
    upper = jnp.where(within & first, upper, 0.0)
    lower = jnp.where(within & ~first, lower, 0.0)
    return _unit(norm, upper) - _unit(norm, lower)

  standing = pair(window.rows, window.columns)
  bump = jnp.where(lying, pair(window.columns, window.rows).T, standing)
  return _unit(norm, bump)[..., None]


def _unit(norm: str, x: Array) -> Array:
  size = norms.distance(norm, x)
  return x / jnp.maximum(size, _TINY)


def _per_channel(norm: str, x: Array) -> Array:
  return jnp.sum(jnp.abs(x), (0, 1)) if norm == "l1" else jnp.sqrt(jnp.sum(jnp.square(x), (0, 1)))


def _grid(norm: str, problem: Problem) -> Array:
  """Returns the start of l2 and l1: a 5×5 grid of bumps with random signs, lying or standing."""
  height, width, channels = problem.image.shape
  side = max(height // 5, 1)
  margin = (height - 5 * side) // 2 if height >= 5 else 0
  down, across = min((height - margin) // side, height // side), (width - margin) // side
  signs, lies = jax.random.split(jax.random.fold_in(problem.key, 0))
  sign = jax.random.rademacher(signs, (down, 1, across, 1, channels), dtype=jnp.float32)
  tile = Window(jnp.ones((side, side, 1), bool), jnp.arange(side), jnp.arange(side))
  standing = _bump(norm, tile, jnp.array(side), jnp.array(False))[None, :, None]
  lying = jnp.swapaxes(standing, 1, 3)
  tiles = jnp.where(jax.random.bernoulli(lies, shape=(down, 1, across, 1, 1)), lying, standing) * sign
  delta = tiles.reshape(down * side, across * side, channels)
  after = (height - margin - down * side, width - margin - across * side)
  delta = jnp.pad(delta, ((margin, after[0]), (margin, after[1]), (0, 0)))
  return _inside(norm, problem, delta)


def _inside(norm: str, problem: Problem, delta: Array) -> Array:
  """Keeps inside: l2 is scaled to the sphere, then clipped; l1 is the exact projection onto ball and box."""
  # Flat vectors: XLA:CPU sums over a last axis of three channels ten times slower.
  image, delta = problem.image.ravel(), delta.ravel()
  if norm == "l2":
    delta = problem.eps * norms.normalize("l2", delta)
  return norms.project(norm, image + delta, image, problem.eps).reshape(problem.image.shape)


def _shift(norm: str, problem: Problem, best: Array, first: Window, second: Window, bump: Array) -> Array:
  """Moves the norm of both windows, and what the ball has left, into a new bump in the first window."""
  delta = best - problem.image
  channels = delta.shape[-1]
  here = jnp.where(first.mask, delta, 0.0)
  held = _per_channel(norm, jnp.where(first.mask | second.mask, delta, 0.0))
  size = norms.distance(norm, delta.ravel())
  fresh = bump + here / (_TINY + _per_channel(norm, here))
  if norm == "l2":
    reach = jnp.sqrt(jnp.maximum(problem.eps**2 - size**2, 0.0) / channels + held**2)
  else:
    reach = jnp.maximum(problem.eps - size, 0.0) + held * channels
  fresh = fresh / (_TINY + _per_channel(norm, fresh)) * reach
  delta = jnp.where(first.mask, fresh, jnp.where(second.mask, 0.0, delta))
  return _inside(norm, problem, delta)
