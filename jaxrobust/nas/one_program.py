"""One program for all cells of NAS-Bench-201: the six operations are an argument, not part of the network.

Compiling 6,466 networks takes longer than attacking them. Here every edge is a `lax.switch` over the five operations,
so that a program compiled once serves every cell at about the cost of a network built for it:

  network = OneProgram(width=16, depth=5, num_classes=10)
  variables = network.widen(operations, native_variables)     # or network.init(key, operations)
  logits = network.logits(operations, variables, images)      # jit this: operations are traced
  logits, stats = network.train_logits(operations, variables, images)

Weights. Every edge owns one 3×3 kernel and one normalization, used or not: 3×3 convolutions use all of the kernel, 1×1
convolutions its middle. Whatever a cell does not use is zero; its gradient is zero, so that any optimizer that moves a
parameter by its gradient, momentum and decay alone leaves it at zero, and training here is training of the native
network. `widen` and `narrow` go from native variables to these and back, without loss.

Batch statistics. In training the switch returns the statistics beside the features; edges that do not normalize
return the old ones.

One trap: `vmap` over the operations turns each switch into a select that computes all five branches for every image, 9
times the work. Operations are therefore one vector per call: map over images, never over cells.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import flax
import jax
import jax.numpy as jnp

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.modules import normalized
from jaxrobust.core.nas_cells import CONV1, CONV3, EDGES, OPERATIONS
from jaxrobust.core.types import Array
from jaxrobust.core.validation import check_count
from jaxrobust.models.families.nas_bench_201 import MEAN, STD, NasBench201
from jaxrobust.nas.initial import torch_default
from jaxrobust.nas.traced_cell import CarriedNetwork, TracedNetwork


@dataclasses.dataclass(frozen=True)
class OneProgram:
  """All networks of one width, depth and number of classes, as pure functions of their operations.

  Attributes:
    width, depth: the benchmark's C and N.
    num_classes: length of a row of logits.
  """

  width: int = 16
  depth: int = 5
  num_classes: int = 10

  def __post_init__(self) -> None:
    for name in ("width", "depth", "num_classes"):
      check_count(getattr(self, name), name, 1 << 20)

  @property
  def module(self) -> TracedNetwork:
    return TracedNetwork(self.num_classes, self.width, self.depth)

  @property
  def trained(self) -> CarriedNetwork:
    """Returns the same network as a training step takes it, with the operations among its variables (`carry`)."""
    return CarriedNetwork(self.num_classes, self.width, self.depth)

  def native(self, operations: Sequence[int]) -> NasBench201:
    """Builds the network of one cell, compiled on its own."""
    return NasBench201(_static(operations), self.num_classes, self.width, self.depth)

  def logits(self, operations: Array | Sequence[int], variables: Any, images: Array) -> Array:
    """Computes logits in evaluation mode.

    Args:
      operations: six indices into `OPERATIONS`, by edge; traced under `jit`.
      variables: of `widen` or `init`.
      images: normalized.

    Returns:
      (N, num_classes).
    """
    return self.module.apply(variables, images, _vector(operations))

  def train_logits(self, operations: Array | Sequence[int], variables: Any, images: Array) -> tuple[Array, Any]:
    """Computes logits in training mode, normalized by the statistics of the batch.

    Returns:
      Logits, and the running statistics that belong into `variables["batch_stats"]` next.
    """
    logits, updates = self.module.apply(variables, images, _vector(operations), train=True, mutable=["batch_stats"])
    return logits, updates["batch_stats"]

  def init(self, key: Array, operations: Sequence[int], side: int = 32) -> Any:
    """Draws the weights that the native network starts from in the benchmark (`initial.torch_default`), widened."""
    zeros = jax.ShapeDtypeStruct((1, side, side, 3), jnp.float32)
    shapes = jax.eval_shape(self.native(operations).init, key, zeros)
    ones = lambda path: path[-1].key in ("scale", "var")
    fill = lambda path, leaf: jnp.full(leaf.shape, float(ones(path)), leaf.dtype)
    return self.widen(operations, torch_default(key, jax.tree_util.tree_map_with_path(fill, shapes)))

  def widen(self, operations: Sequence[int], variables: Any) -> Any:
    """Turns variables of a cell's native network into those of the one program.

    Args:
      operations: of the cell.
      variables: of `native(operations)`; those of another cell are refused.

    Returns:
      Variables with zeros wherever the cell has nothing, variances 1.
    """
    cell, flat, shapes = _static(operations), flax.traverse_util.flatten_dict(variables), self._shapes()
    if set(flat) != {path for path in shapes if _is_used(path, cell)}:
      raise InputError(f"these variables are not those of the cell {cell} with {self.depth} cells per stage")
    for path, leaf in shapes.items():
      if path not in flat:
        flat[path] = jnp.full(leaf.shape, 1.0 if path[-1] == "var" else 0.0, leaf.dtype)
      elif flat[path].shape[:2] == (1, 1) and leaf.shape[:2] == (3, 3):
        flat[path] = jnp.pad(flat[path], ((1, 1), (1, 1), (0, 0), (0, 0)))
    return flax.traverse_util.unflatten_dict(flat)

  def narrow(self, operations: Sequence[int], variables: Any) -> Any:
    """Turns variables of the one program into those of a cell's native network."""
    cell, flat = _static(operations), flax.traverse_util.flatten_dict(variables)
    small = lambda path: path[-1] == "kernel" and _operation(path, cell) == CONV1
    used = {path: leaf[1:2, 1:2] if small(path) else leaf for path, leaf in flat.items() if _is_used(path, cell)}
    return flax.traverse_util.unflatten_dict(used)

  def carry(self, operations: Sequence[int], variables: Any) -> Any:
    """Turns variables of the one program into those of `trained`."""
    cell = jnp.asarray(_static(operations), jnp.int32)
    return {**variables, "batch_stats": {**variables["batch_stats"], "operations": cell}}

  def put_down(self, variables: Any) -> Any:
    """Turns variables of `trained` into those of the one program."""
    stats = {name: leaf for name, leaf in variables["batch_stats"].items() if name != "operations"}
    return {**variables, "batch_stats": stats}

  def _shapes(self) -> Mapping[tuple[str, ...], Any]:
    images, operations = jax.ShapeDtypeStruct((1, 32, 32, 3), jnp.float32), jnp.zeros(len(EDGES), jnp.int32)
    return flax.traverse_util.flatten_dict(
      jax.eval_shape(lambda x: self.module.init(jax.random.key(0), x, operations), images)
    )

  def classifier(
    self,
    operations: Sequence[int],
    variables: Any,
    mean: Sequence[float] = MEAN,
    std: Sequence[float] = STD,
  ) -> Classifier:
    """Wraps a cell for attacks and evaluation; every cell shares the programs compiled for the first.

    Args:
      operations: of the cell; a leaf of the classifier, so traced.
      variables: of `widen` or `init`.
      mean, std: the normalization; the benchmark's for CIFAR-10 by default.

    Returns:
      A classifier of images in [0, 1].
    """
    weights = {
      "operations": jnp.asarray(_static(operations), jnp.int32),
      "module": variables,
      "mean": jnp.asarray(mean, jnp.float32),
      "std": jnp.asarray(std, jnp.float32),
    }
    name = "jaxrobust.nas.one_program"  # Cells on disk are found again by it; operations and weights are variables.
    return Classifier.from_function(_Logits(self), self.num_classes, variables=weights, name=name)


@dataclasses.dataclass(frozen=True)
class _Logits:
  """A function that compares equal for all cells of one program."""

  program: OneProgram

  def __call__(self, variables: Any, images: Array) -> Array:
    inputs = normalized(variables, images, None)
    return self.program.logits(variables["operations"], variables["module"], inputs)


def _operation(path: tuple[str, ...], cell: tuple[int, ...]) -> int | None:
  """Returns the operation of the edge that a variable belongs to; None for those outside of cells."""
  return cell[int(path[2].removeprefix("layers_"))] if path[2].startswith("layers_") else None


def _is_used(path: tuple[str, ...], cell: tuple[int, ...]) -> bool:
  return _operation(path, cell) in (None, CONV1, CONV3)


def _static(operations: Sequence[int]) -> tuple[int, ...]:
  cell = tuple(int(operation) for operation in operations)
  if len(cell) != len(EDGES) or not all(0 <= operation < len(OPERATIONS) for operation in cell):
    raise InputError(f"a cell has {len(EDGES)} operations from 0 to {len(OPERATIONS) - 1}, got {cell}")
  return cell


def _vector(operations: Array | Sequence[int]) -> Array:
  """Returns the operations as an array, if they are one cell."""
  vector = jnp.asarray(operations, jnp.int32)
  if vector.shape != (len(EDGES),):
    raise InputError(f"one program computes one cell at a time: {len(EDGES)} operations, got shape {vector.shape}")
  return vector
