"""Backward linear bounds of a network: CROWN, its cheaper and its optimized forms, and the bound of Wong and Kolter.

A row of coefficients over some layer is pulled back to the image, through the transposes of affine parts and the lines
around each ReLU (`relaxation.py`); what arrives is a linear function of the image below the row's value, and its least
value over the region is a bound. The bounds that the lines of a ReLU need are found the same way, layer by layer, of
those neurons alone whose sign cheaper bounds leave open; or by intervals, which is CROWN-IBP (Zhang et al. 2020,
arXiv:1906.06316).

Everything is written for one image; rows go through in chunks, so memory does not grow with the width of a layer.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxrobust.certify.intervals import BoundInterval, propagate, walk
from jaxrobust.certify.program import NetworkProgram
from jaxrobust.certify.region import Region
from jaxrobust.certify.relaxation import Constants, Lines, relaxed_relu, relu_lines
from jaxrobust.core.types import Array

# Activations that a chunk of rows may fill, as a number of floats. A processor has nothing to gain from more than its
# cache holds, and a chunk that is not full is paid for in full.
_CHUNK_FLOATS = {"cpu": 1 << 15}
_CHUNK_FLOATS_ELSEWHERE = 1 << 19
# The same of rows of logits: few classes fit into one chunk, a thousand at 224 pixels do not.
_ROWS_FLOATS = 1 << 22


@dataclass(frozen=True)
class BoundMethod:
  """How bounds are computed.

  Attributes:
    backward: whether the logits' bounds go back to the image; to the last ReLUs alone otherwise, which is IBP.
    layers: whether those of the layers do, too; intervals otherwise.
    parallel: Wong and Kolter's lines instead of CROWN's.
    box: whether images stay in [0, 1].
    meet: whether bounds of layers are cut with those by intervals; neurons that these settle are then not asked again.
    ascents: gradient steps on the slopes of the lines below, for the logits' bounds.
    every_row: no row is left out and no loop is of unknown length, so that bounds can be differentiated by weights.
  """

  backward: bool = True
  layers: bool = True
  parallel: bool = False
  box: bool = True
  meet: bool = True
  ascents: int = 0
  every_row: bool = False


class Bound(NamedTuple):
  """Lower bounds of rows of logits, and the magnitudes that they are sums of, for rounding."""

  value: Array
  mass: Array


def lower_bounds(program: NetworkProgram, region: Region, rows: Array, method: BoundMethod) -> Bound:
  """Returns lower bounds of rows · logits over a region.

  Args:
    program: the network.
    region: around one image.
    rows: (R, classes).
    method: which bounds.

  >>> from jaxrobust.certify.program import read_program
  >>> from jaxrobust.core.classifier import Classifier
  >>> mix = jnp.array([[1.0, 1.0], [1.0, -1.0]])
  >>> model = Classifier.from_function(lambda x: jax.nn.relu(x[:, 0, 0] @ mix) @ mix, num_classes=2)
  >>> region = Region.around("linf", jnp.array([[[0.5, 0.4]]]), jnp.float32(0.2))
  >>> rows = jnp.array([[1.0, -1.0]])  # Twice relu(x1 - x2), which may be 0.
  >>> program = read_program(model, (1, 1, 2))
  >>> methods = BoundMethod(), BoundMethod(parallel=True)
  >>> [round(float(lower_bounds(program, region, rows, method).value[0]), 2) for method in methods]
  [-0.6, -0.38]
  """
  layers = layer_bounds(program, region, method)
  if not method.backward:
    return _from_last_relus(program, region, layers, rows)
  lines = [relu_lines(before, method.parallel) for before in layers]
  if method.ascents:
    improved = functools.partial(_improved, program, region, layers, lines, method.ascents)
    # Every activation of a row is kept for the gradient of its slopes.
    return _of_rows(improved, rows, 2 * sum(map(math.prod, (region.image.shape, *program.shapes))))
  pulled = _pullback(program, region, lines, None)
  widest = max(map(math.prod, (region.image.shape, *program.shapes)))
  return _of_rows(lambda row: _below(region, *pulled(row[None])), rows, widest)


def _of_rows(bound: Callable[[Array], Bound], rows: Array, floats: int) -> Bound:
  """Returns bounds of rows, as many at a time as memory allows where each takes so many floats."""
  chunk = max(1, _ROWS_FLOATS // floats)
  return jax.vmap(bound)(rows) if len(rows) <= chunk else lax.map(bound, rows, batch_size=chunk)


def layer_bounds(program: NetworkProgram, region: Region, method: BoundMethod) -> list[BoundInterval]:
  """Returns bounds of what goes into each maximum, in order."""
  found: list[BoundInterval] = []
  fresh = _without_maxima_before(program)

  def bounded(number: int, before: BoundInterval) -> BoundInterval:
    exact = region.norm == "linf" and fresh[number]  # Intervals are exact for one affine function of a box.
    if method.layers and method.backward and not exact:
      lines = [relu_lines(one, method.parallel) for one in found]
      before = _tightened(program, region, lines, number, before, method)
    found.append(before)
    return before

  center, radius = region.interval
  propagate(program, BoundInterval(center[None], radius[None]), bounded)
  return found


def _without_maxima_before(program: NetworkProgram) -> list[bool]:
  """Tells of each maximum whether what goes into it is affine in the image."""
  after_maximum: set[int] = set()
  answers = []
  for operation in program.operations:
    late = any(one in after_maximum for one in operation.inputs if isinstance(one, int))
    if operation.name == "max":
      answers.append(not late)
    if late or operation.name == "max":
      after_maximum |= set(operation.outputs)
  return answers


def _pullback(program: NetworkProgram, region: Region, lines: Sequence[Lines], stop: int | None) -> Any:
  """Returns the map from coefficients at the logits, or before maximum `stop`, to those of the image and constants."""

  def network(image: Array, constants: Constants) -> Array:
    return walk(program, image, lambda number, value: relaxed_relu(value, lines[number], constants), stop)

  constant, pull = jax.vjp(network, jnp.zeros((1, *region.image.shape)), Constants.zero())

  def pulled(row: Array) -> tuple[Array, Constants]:
    slope, rest = pull(row)
    own = row * constant
    total = jnp.sum(own)
    return slope[0], Constants(rest.lower + total, rest.upper + total, rest.mass + jnp.sum(jnp.abs(own)))

  return pulled


def _below(region: Region, slope: Array, constants: Constants) -> Bound:
  return Bound(region.least(slope) + constants.lower, region.reach(slope) + constants.mass)


def _tightened(
  program: NetworkProgram,
  region: Region,
  lines: Sequence[Lines],
  number: int,
  before: BoundInterval,
  method: BoundMethod,
) -> BoundInterval:
  """Returns bounds of a layer by rows of their own for its neurons, or for those whose sign is open."""
  shape, size = before.center.shape, math.prod(before.center.shape)
  pulled = _pullback(program, region, lines, number)

  def both(neuron: Array) -> tuple[Array, Array]:
    row = (jnp.arange(size) == neuron).astype(before.center.dtype).reshape(shape)
    slope, constants = pulled(row)
    if method.parallel:
      return region.least(slope) + constants.lower, region.greatest(slope) + constants.upper
    other, least = pulled(-row)
    return region.least(slope) + constants.lower, -(region.least(other) + least.lower)

  widest = max(math.prod(one) for one in (region.image.shape, *program.shapes[: number + 1]))
  floats = _CHUNK_FLOATS.get(jax.default_backend(), _CHUNK_FLOATS_ELSEWHERE)
  chunk = min(size, max(1, floats // widest))
  if method.every_row:
    low, high = lax.map(jax.checkpoint(both), jnp.arange(size), batch_size=chunk)
  else:
    low, high = _of_open_neurons(jax.vmap(both), before, chunk, method.meet)
  low, high = low.reshape(shape), high.reshape(shape)
  return before.meet(low, high) if method.meet else BoundInterval.between(low, high)


def _of_open_neurons(both: Any, before: BoundInterval, chunk: int, skip: bool) -> tuple[Array, Array]:
  """Returns flat bounds of the neurons whose sign is open (of all, where none may be skipped); others keep theirs."""
  low, high = before.lower.ravel(), before.upper.ravel()
  size = low.size
  unsettled = (low < 0) & (high > 0) if skip else jnp.ones(size, bool)
  order, count = jnp.argsort(~unsettled, stable=True), jnp.sum(unsettled)

  def body(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    start, low, high = carry
    neurons = lax.dynamic_slice_in_dim(order, start, chunk)  # Clamped at the end: some are done twice.
    below, above = both(neurons)
    return start + chunk, low.at[neurons].set(below), high.at[neurons].set(above)

  _, low, high = lax.while_loop(lambda carry: carry[0] < count, body, (jnp.zeros((), count.dtype), low, high))
  return low, high


def _from_last_relus(program: NetworkProgram, region: Region, layers: Sequence[BoundInterval], rows: Array) -> Bound:
  """Returns IBP's bounds of rows, which the last affine part is merged with."""
  after = [jnp.zeros_like(one.center) for one in layers]

  # As many ReLUs as the network has are inputs; the affine function of the last of them takes what it needs.
  def network(image: Array, outputs: list[Array]) -> Array:
    return walk(program, image, lambda number, _: outputs[number])

  constant, pull = jax.vjp(network, jnp.zeros((1, *region.image.shape)), after)

  def bound(row: Array) -> Bound:
    slope, slopes = pull(row[None])
    value, mass = jnp.vdot(row, constant[0]) + region.least(slope[0]), jnp.sum(jnp.abs(row * constant[0]))
    for coefficient, layer in zip(slopes, layers, strict=True):
      low, high = jnp.maximum(layer.lower, 0), jnp.maximum(layer.upper, 0)
      value += jnp.sum(jnp.where(coefficient > 0, coefficient * low, coefficient * high))
      mass += jnp.sum(jnp.abs(coefficient) * high)
    return Bound(value, mass + region.reach(slope[0]))

  return jax.vmap(bound)(rows)


# Of the ascent: each slope moves by so much a step at first, and the step falls in proportion to what is left.
_STEP = 0.2


def _improved(
  program: NetworkProgram, region: Region, layers: Sequence[BoundInterval], lines: list[Lines], ascents: int, row: Array
) -> Bound:
  """Returns the best bound of one row along an ascent by the sign of the gradient on the slopes of the lines below."""

  def bound(slopes: list[Array]) -> tuple[Array, Bound]:
    moved = [line._replace(below=slope) for line, slope in zip(lines, slopes, strict=True)]
    found = _below(region, *_pullback(program, region, moved, None)(row[None]))
    return found.value, found

  open_ = [(layer.lower < 0) & (layer.upper > 0) for layer in layers]

  def body(step: Array, carry: tuple[list[Array], Bound]) -> tuple[list[Array], Bound]:
    slopes, best = carry
    (_, found), uphill = jax.value_and_grad(bound, has_aux=True)(slopes)
    size = _STEP * (1 - step / ascents)
    moved = [
      jnp.where(free, jnp.clip(slope + size * jnp.sign(gradient), 0, 1), slope)
      for free, slope, gradient in zip(open_, slopes, uphill, strict=True)
    ]
    return moved, jax.tree.map(functools.partial(jnp.where, found.value > best.value), found, best)

  start = [line.below for line in lines]
  slopes, best = lax.fori_loop(0, ascents, body, (start, bound(start)[1]))
  last = bound(slopes)[1]
  return jax.tree.map(functools.partial(jnp.where, last.value > best.value), last, best)
