"""Walking through a network: with intervals (IBP), or with the affine function between its maxima.

Interval bound propagation (Gowal et al. 2018, arXiv:1810.12715) carries a center c and a radius r. An affine operation
A x + b sends them to A c + b and |A| r; a maximum is monotone in both arguments, so it is taken at the ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxrobust.certify.program import LINEAR, NetworkProgram, Operation, read
from jaxrobust.core.types import Array


class BoundInterval(NamedTuple):
  """Values between center - radius and center + radius."""

  center: Array
  radius: Array

  @property
  def lower(self) -> Array:
    return self.center - self.radius

  @property
  def upper(self) -> Array:
    return self.center + self.radius

  @classmethod
  def between(cls, lower: Array, upper: Array) -> BoundInterval:
    return cls((lower + upper) / 2, (upper - lower) / 2)

  def minus(self, other: Any) -> BoundInterval:
    """Returns the difference, of another interval or of a known value."""
    if isinstance(other, BoundInterval):
      return BoundInterval(self.center - other.center, self.radius + other.radius)
    return BoundInterval(self.center - other, self.radius)

  def meet(self, lower: Array, upper: Array) -> BoundInterval:
    """Returns what is inside other bounds as well."""
    low, high = jnp.maximum(self.lower, lower), jnp.minimum(self.upper, upper)
    # Rounding may put the bounds of a point the wrong way round.
    return BoundInterval.between(jnp.minimum(low, high), jnp.maximum(low, high))


def _maximum(first: Any, second: Any) -> BoundInterval:
  low, high = (
    jnp.maximum(*(getattr(one, end) if isinstance(one, BoundInterval) else one for one in (first, second)))
    for end in ("lower", "upper")
  )
  return BoundInterval.between(low, high)


def propagate(
  program: NetworkProgram, image: BoundInterval, bounded: Callable[[int, BoundInterval], BoundInterval]
) -> BoundInterval:
  """Returns bounds of the logits.

  Args:
    program: the network.
    image: bounds of the image, as a batch of one.
    bounded: told of each maximum, by its number, the bounds of a - b, and returns those to go on with; tighter ones,
      perhaps. A ReLU's a - b is what goes into it.

  >>> import jax
  >>> from jaxrobust.certify.program import read_program
  >>> from jaxrobust.core.classifier import Classifier
  >>> model = Classifier.from_function(lambda x: jax.nn.relu(x[:, 0, 0] * jnp.array([1.0, -2.0])), num_classes=2)
  >>> box = BoundInterval(jnp.full((1, 1, 1, 2), 0.5), jnp.full((1, 1, 1, 2), 0.25))
  >>> out = propagate(read_program(model, (1, 1, 2)), box, lambda number, before: before)
  >>> out.lower.tolist(), out.upper.tolist()
  ([[0.25, 0.0]], [[0.75, 0.0]])
  """
  values: dict[int, Any] = {**program.known, program.image: image}
  number = 0
  for operation in program.operations:
    operands = [read(values, one) for one in operation.inputs]
    if operation.name == "max":
      # What depends on the image comes first; a known second operand is the ReLU's zero.
      first, second = operands if operation.depends[0] else operands[::-1]
      before = bounded(number, first.minus(second))
      out = _maximum(first, second)
      if not isinstance(second, BoundInterval):
        after = _maximum(before, jnp.zeros(()))
        out = out.meet(after.lower + second, after.upper + second)
      results, number = [out], number + 1
    else:
      results = _affine(operation, operands)
    values |= dict(zip(operation.outputs, results, strict=True))
  return values[program.logits]


def _affine(operation: Operation, operands: Sequence[Any]) -> list[BoundInterval]:
  kind = LINEAR[operation.name][0]
  centers = [one.center if isinstance(one, BoundInterval) else one for one in operands]
  others: Callable[[Any], Any] = {"scale": jnp.abs, "sum": jnp.zeros_like, "move": lambda known: known}[kind]
  radii = [one.radius if isinstance(one, BoundInterval) else others(one) for one in operands]
  if operation.name == "select_n":
    radii[0] = operands[0]
  if operation.name == "sub":
    spread = [jnp.add(*radii)]
  elif operation.name == "neg":
    spread = radii
  else:
    spread = operation.bind(*radii)
  return list(map(BoundInterval, operation.bind(*centers), spread))


Relaxed = Callable[[int, Array], Array]
"""Number of a maximum, a - b -> what stands in for relu(a - b)."""


def walk(program: NetworkProgram, image: Array, relaxed: Relaxed, stop: int | None = None) -> Array:
  """Returns the logits of one image, or what goes into maximum number `stop`, with something in place of every ReLU.

  >>> import jax
  >>> from jaxrobust.certify.program import read_program
  >>> from jaxrobust.core.classifier import Classifier
  >>> model = Classifier.from_function(lambda x: 2 * jax.nn.relu(x[:, 0, 0] - 1), num_classes=2)
  >>> program, image = read_program(model, (1, 1, 2)), jnp.array([[[[0.5, 3.0]]]])
  >>> walk(program, image, lambda number, value: jax.nn.relu(value)).tolist()
  [[0.0, 4.0]]
  >>> walk(program, image, lambda number, value: value, stop=0).tolist()
  [[-0.5, 2.0]]
  """
  values: dict[int, Any] = {**program.known, program.image: image}
  number = 0
  for operation in program.operations:
    operands = [read(values, one) for one in operation.inputs]
    if operation.name == "max":
      first, second = operands if operation.depends[0] else operands[::-1]
      if number == stop:
        return first - second
      results = [relaxed(number, first - second) + second]
      number += 1
    else:
      results = operation.bind(*operands)
    values |= dict(zip(operation.outputs, results, strict=True))
  return values[program.logits]
