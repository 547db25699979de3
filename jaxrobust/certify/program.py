"""A network as a list of operations: affine in the image, or a maximum.

The jaxpr of a classifier is flattened (calls inlined, unused operations dropped) and every operation whose result
depends on the image must be one of

  * affine in what depends on the image: `LINEAR` below, by the way in which other operands enter;
  * a maximum of two values, `max(a, b) = b + relu(a - b)`, to which minima, absolute values, clamps and max pooling are
    rewritten. `max(a, 0)` is the ReLU.

Anything else is refused in one line that names it. So every network of this package that is made of such operations
(convolution, dense, batch norm in evaluation, pooling, shortcuts, normalization) has bounds, whatever its family.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Literal

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array

# How operands enter: a known one scales the other ("scale"; the places that may depend on the image), all are summed
# ("sum"), or the first is moved about and the others are indices ("move").
LINEAR: dict[str, tuple[str, tuple[int, ...]]] = {
  **dict.fromkeys(("conv2d", "conv2d_input_gradient", "div"), ("scale", (0,))),
  **dict.fromkeys(("mul", "dot_general", "conv_general_dilated"), ("scale", (0, 1))),
  **dict.fromkeys(("add", "sub", "add_any", "concatenate", "pad"), ("sum", ())),
  "select_n": ("sum", ()),
  **dict.fromkeys(("neg", "reshape", "transpose", "broadcast_in_dim", "squeeze", "expand_dims"), ("move", (0,))),
  **dict.fromkeys(("slice", "rev", "gather", "dynamic_slice", "split", "copy", "copy_p"), ("move", (0,))),
  **dict.fromkeys(("reduce_sum", "reduce_window_sum", "cumsum", "optimization_barrier"), ("move", (0,))),
  "convert_element_type": ("move", (0,)),
}
_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr"}
_CALLS |= {"custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr", "core_call": "call_jaxpr"}


class Operation(NamedTuple):
  """One step of a flattened network.

  Attributes:
    equation: of the jaxpr it came from: primitive and parameters.
    inputs: numbers of values, or literals.
    outputs: numbers of values.
    depends: which inputs depend on the image.
  """

  equation: Any
  inputs: tuple[Any, ...]
  outputs: tuple[int, ...]
  depends: tuple[bool, ...]

  @property
  def name(self) -> str:
    return self.equation.primitive.name

  def bind(self, *operands: Any) -> list[Any]:
    """Computes it, as JAX would."""
    primitive = self.equation.primitive
    out = primitive.bind(*operands, **self.equation.params)
    return list(out) if primitive.multiple_results else [out]


class NetworkProgram(NamedTuple):
  """A flattened network, with all that does not depend on the image computed.

  Attributes:
    known: values by number.
    operations: those that depend on the image, in order.
    image: the number of the image, a batch of one.
    logits: the number of the result.
    shapes: of what goes into each maximum, in order.
  """

  known: dict[int, Any]
  operations: tuple[Operation, ...]
  image: int
  logits: int
  shapes: tuple[tuple[int, ...], ...]


def read_program(classifier: Classifier, image_shape: tuple[int, ...]) -> NetworkProgram:
  """Returns a classifier's operations on one image; raises InputError for one that has no bounds.

  Args:
    classifier: its variables may be traced.
    image_shape: (H, W, C).

  >>> linear = Classifier.from_function(lambda x: jax.nn.relu(x.reshape(len(x), -1)[:, :3] - 1), num_classes=3)
  >>> [operation.name for operation in read_program(linear, (2, 2, 1)).operations]
  ['reshape', 'slice', 'sub', 'max']
  >>> read_program(Classifier.from_function(lambda x: jnp.tanh(x[:, 0, 0]), num_classes=2), (1, 1, 2))
  Traceback (most recent call last):
  jaxrobust.core.errors.InputError: no certificate: the network uses tanh, which has no linear bounds here
  """
  if classifier.randomized:
    raise InputError("no certificate: a randomized classifier has no bounds; smoothing certifies the mean of its votes")
  leaves, tree = jax.tree.flatten(classifier.variables)

  def logits(arrays: list[Array], image: Array) -> Array:
    return classifier.apply(jax.tree.unflatten(tree, arrays), image, None)

  image = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
  closed = jax.make_jaxpr(logits)(leaves, image)
  flat = _Flattening()
  numbers = [next(flat.numbers) for _ in closed.jaxpr.invars]
  flat.dependent.add(numbers[-1])
  out = flat.inline(closed, numbers)[0]
  if isinstance(out, Literal) or out not in flat.dependent:
    raise InputError("no certificate: the logits do not depend on the image")
  needed = flat.needed(out)
  known = dict(flat.constants)
  known |= dict(zip(numbers[:-1], leaves, strict=True))
  operations = []
  for operation in needed:
    if any(operation.depends):
      _check(operation)
      operations.append(operation)
    else:
      outputs = operation.bind(*(read(known, one) for one in operation.inputs))
      known |= dict(zip(operation.outputs, outputs, strict=True))
  shapes = tuple(operation.equation.outvars[0].aval.shape for operation in operations if operation.name == "max")
  return NetworkProgram(known, tuple(operations), numbers[-1], out, shapes)


def check_program(classifier: Classifier, image_shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
  """Returns the shapes of what goes into each maximum, without computing anything; raises as `read_program` does.

  >>> model = Classifier.from_function(lambda x: jax.nn.relu(x[:, 0, 0]), num_classes=2)
  >>> check_program(model, (1, 1, 2))
  ((1, 2),)
  """
  shapes: list[tuple[int, ...]] = []

  def known(asked: Classifier) -> dict[int, Any]:
    program = read_program(asked, image_shape)
    shapes.extend(program.shapes)
    return program.known

  jax.eval_shape(
    known, jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)), classifier)
  )
  return tuple(shapes)


def read(values: dict[int, Any], one: Any) -> Any:
  """Returns a value by its number; literals are what they are."""
  return one.val if isinstance(one, Literal) else values[one]


class _Flattening:
  """A jaxpr on its way to one list of operations over numbered values."""

  def __init__(self) -> None:
    self.numbers = itertools.count()
    self.operations: list[Operation] = []
    self.constants: dict[int, Any] = {}
    self.dependent: set[int] = set()

  def inline(self, closed: ClosedJaxpr, arguments: Iterable[Any]) -> list[Any]:
    """Appends the operations of a jaxpr and returns what its results are called."""
    names: dict[Any, Any] = dict(zip(closed.jaxpr.invars, arguments, strict=True))
    for variable, value in zip(closed.jaxpr.constvars, closed.consts, strict=True):
      names[variable] = number = next(self.numbers)
      self.constants[number] = value
    for equation in closed.jaxpr.eqns:
      inputs = [one if isinstance(one, Literal) else names[one] for one in equation.invars]
      outputs = self._expand(equation, inputs)
      names |= dict(zip(equation.outvars, outputs, strict=True))
    return [one if isinstance(one, Literal) else names[one] for one in closed.jaxpr.outvars]

  def _expand(self, equation: Any, inputs: list[Any]) -> list[Any]:
    name = equation.primitive.name
    if name in _CALLS:
      inner = equation.params[_CALLS[name]]
      return self.inline(inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ()), inputs)
    depends = tuple(not isinstance(one, Literal) and one in self.dependent for one in inputs)
    if any(depends) and name in _REWRITTEN:
      rewritten = functools.partial(_REWRITTEN[name], **equation.params)
      return self.inline(jax.make_jaxpr(rewritten)(*(one.aval for one in equation.invars)), inputs)
    outputs = tuple(next(self.numbers) for _ in equation.outvars)
    self.operations.append(Operation(equation, tuple(inputs), outputs, depends))
    if any(depends):
      self.dependent |= set(outputs)
    return list(outputs)

  def needed(self, out: int) -> list[Operation]:
    """Returns the operations that a result needs."""
    wanted, kept = {out}, []
    for operation in reversed(self.operations):
      if wanted & set(operation.outputs):
        wanted |= {one for one in operation.inputs if not isinstance(one, Literal)}
        kept.append(operation)
    return kept[::-1]


def _check(operation: Operation) -> None:
  """Refuses what is neither affine in the image nor a maximum."""
  name, places = operation.name, [place for place, depends in enumerate(operation.depends) if depends]
  if name == "max":
    return
  if name not in LINEAR:
    raise InputError(f"no certificate: the network uses {name}, which has no linear bounds here")
  kind, allowed = LINEAR[name]
  if kind != "sum" and (len(places) > 1 or places[0] not in allowed):
    raise InputError(f"no certificate: the network uses {name} of values that both depend on the image")
  fill = operation.equation.params.get("fill_value") if name == "gather" else None
  if fill and not math.isnan(fill):  # NaN leaves bounds that prove nothing.
    raise InputError("no certificate: the network uses gather with a value in place of what lies outside")
  if name == "select_n" and 0 in places:
    raise InputError("no certificate: the network uses select_n by a condition that depends on the image")
  kinds = {str(variable.aval.dtype) for variable in operation.equation.outvars}
  if not kinds <= {"float32", "float64"}:
    raise InputError(f"no certificate: the network computes in {', '.join(sorted(kinds))}; bounds are float32")


def _minimum(first: Array, second: Array, **_: Any) -> Array:
  return -jnp.maximum(-first, -second)


def _clamp(low: Array, value: Array, high: Array, **_: Any) -> Array:
  return _minimum(jnp.maximum(value, low), high)


def _absolute(value: Array, **_: Any) -> Array:
  return jnp.maximum(value, -value)


def _window_maximum(value: Array, **params: Any) -> Array:
  """Returns max pooling as maxima of shifted images; padding repeats the edge, which every window beyond it has."""
  size, strides, padding = (params[name] for name in ("window_dimensions", "window_strides", "padding"))
  dilated = {*params.get("base_dilation", ()), *params.get("window_dilation", ())} - {1}
  if dilated or any(max(sides) >= length for sides, length in zip(padding, size, strict=True)):
    raise InputError("no certificate: the network pools by maxima with dilation or padding beyond its windows")
  for axis, (low, high) in enumerate(padding):
    if low or high:
      index = jnp.clip(jnp.arange(-low, value.shape[axis] + high), 0, value.shape[axis] - 1)
      value = jnp.take(value, index, axis)
  counts = [(length - window) // step + 1 for length, window, step in zip(value.shape, size, strides, strict=True)]
  views = []
  for offsets in itertools.product(*(range(window) for window in size)):
    stops = [first + (count - 1) * step + 1 for first, count, step in zip(offsets, counts, strides, strict=True)]
    views.append(lax.slice(value, offsets, stops, strides))
  # Pairs of pairs: fewer maxima lie on top of one another than in a chain.
  while len(views) > 1:
    joined = [jnp.maximum(*views[at : at + 2]) for at in range(0, len(views) - 1, 2)]
    views = joined + views[2 * len(joined) :]
  return views[0]


_REWRITTEN: dict[str, Callable[..., Array]] = {
  "min": _minimum,
  "clamp": _clamp,
  "abs": _absolute,
  "reduce_window_max": _window_maximum,
}
