"""The networks of NAS-Bench-201 (Dong & Yang 2020, arXiv:2001.00326): a cell of six edges, repeated.

A cell has nodes 0 (input) to 3 (output); each node is the sum of its in-edges, each edge one of five operations.
Fifteen cells in three stages stand between a stem and a head, with a residual block of stride 2 between stages. Any of
the 15,625 cells is the model `nb201-ID`, with the ids of the published benchmark:

  >>> NasBench201(operations_of(13714)).operations
  (3, 3, 3, 1, 2, 3)

Layers carry the names of the authors' PyTorch code (github.com/D-X-Y/AutoDL-Projects), so their weights convert by
name. One deviation: kernels start from He's normal distribution as everywhere in this package, theirs from PyTorch's
default (`jaxrobust.nas.initial` draws those). What is known of the space itself is in `jaxrobust.nas`.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Iterable

import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from jaxrobust.core.errors import UnknownNameError
from jaxrobust.core.types import Array
from jaxrobust.models.layers.basic import avg_pool, batch_norm, global_pool
from jaxrobust.models.layers.conv import Conv
from jaxrobust.models.registry import MODELS, ModelSpec

OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
NONE, SKIP, CONV1, CONV3, POOL = range(5)
# Source and target of each edge, in the order of the published strings; the paper counts them from 1.
EDGES = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
NUM_CELLS = len(OPERATIONS) ** len(EDGES)
# Cells that are listed by name: the best on clean CIFAR-10 and on its corruptions (arXiv:2306.06712, appendix B.1).
LISTED = {13714: "best on clean CIFAR-10", 3456: "best on CIFAR-10-C"}
# Of the authors' training on CIFAR-10.
MEAN = (125.3 / 255, 123.0 / 255, 113.9 / 255)
STD = (63.0 / 255, 62.1 / 255, 66.7 / 255)

CellFn = Callable[[Array, str], Array]


@functools.cache
def all_cells() -> np.ndarray:
  """Generates the operations of every cell, in the order of the published ids.

  The authors enumerated all combinations and shuffled them with the standard library's generator, seed 88.

  Returns:
    (15625, 6) read-only array of indices into `OPERATIONS`, one row per id, one column per edge.

  >>> all_cells()[0].tolist()
  [4, 2, 1, 2, 1, 1]
  """
  cells = list(itertools.product(range(len(OPERATIONS)), repeat=len(EDGES)))
  random.Random(88).shuffle(cells)
  table = np.array(cells, np.int8)
  table.flags.writeable = False
  return table


def operations_of(uid: int) -> tuple[int, ...]:
  """Looks up the six operations of a cell.

  Args:
    uid: its published id, 0 to 15,624.

  Returns:
    Indices into `OPERATIONS`, by edge.
  """
  if not 0 <= uid < NUM_CELLS:
    raise UnknownNameError(f"unknown cell {uid}; NAS-Bench-201 has ids 0 to {NUM_CELLS - 1}")
  return tuple(all_cells()[uid].tolist())


class ReluConvNorm(nn.Module):
  """A ReLU, a convolution without bias and a batch normalization."""

  features: int
  size: int = 3
  stride: int = 1

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    x = Conv(self.features, self.size, self.stride, self.size // 2, use_bias=False, name="op_1")(nn.relu(x))
    return batch_norm(train, "op_2")(x)


class Reduction(nn.Module):
  """The residual block between stages: two 3×3 convolutions, the first of stride 2, beside a pooled 1×1 one."""

  features: int

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    y = ReluConvNorm(self.features, stride=2, name="conv_a")(x, train)
    y = ReluConvNorm(self.features, name="conv_b")(y, train)
    return Conv(self.features, 1, use_bias=False, name="downsample_1")(avg_pool(x, 2, 2)) + y


class CellModule(nn.Module):
  """One cell whose operations are fixed: only the layers that it uses exist."""

  operations: tuple[int, ...]

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    return sum_nodes(x, lambda source, edge: self._edge(source, edge, train))

  def _edge(self, x: Array, edge: int, train: bool) -> Array | None:
    operation = self.operations[edge]
    if operation == NONE:
      return None
    if operation == SKIP:
      return x
    if operation == POOL:
      return avg_pool(x, 3, 1, 1, count_padding=False)
    return ReluConvNorm(x.shape[-1], 1 if operation == CONV1 else 3, name=f"layers_{edge}")(x, train)


def sum_nodes(x: Array, edge: Callable[[Array, int], Array | None]) -> Array:
  """Adds up the nodes of a cell.

  Args:
    x: features at its input.
    edge: `edge(source, index)` returns what an edge adds to its target, None for nothing.

  Returns:
    Features at its output; a node without in-edges is zero.
  """
  nodes = [x]
  for target in range(1, 4):
    parts = [edge(nodes[source], index) for index, (source, to) in enumerate(EDGES) if to == target]
    there = [part for part in parts if part is not None]
    nodes.append(functools.reduce(jnp.add, there) if there else jnp.zeros_like(x))
  return nodes[3]


def apply_stages(x: Array, train: bool, width: int, depth: int, num_classes: int, cell: CellFn) -> Array:
  """Computes a whole network around its cells; called inside a compact method.

  Args:
    x: normalized images.
    train: whether batch statistics are those of the batch.
    width: channels of the first stage; 16 in the benchmark, doubled from stage to stage.
    depth: cells per stage; 5 in the benchmark.
    num_classes: length of a row of logits.
    cell: `cell(features, name)` returns the features behind a cell.

  Returns:
    Logits.
  """
  x = batch_norm(train, "stem_1")(Conv(width, 3, 1, 1, use_bias=False, name="stem_0")(x))
  for stage in range(3):
    first = stage * (depth + 1)
    if stage:
      x = Reduction(width * 2**stage, name=f"cells_{first - 1}")(x, train)
    for index in range(depth):
      x = cell(x, f"cells_{first + index}")
  return nn.Dense(num_classes, name="classifier")(global_pool(nn.relu(batch_norm(train, "lastact_0")(x))))


class NasBench201(nn.Module):
  """The network of one cell; `width` and `depth` are the benchmark's C and N."""

  operations: tuple[int, ...]
  num_classes: int = 10
  width: int = 16
  depth: int = 5

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    cell = lambda features, name: CellModule(self.operations, name=name)(features, train)
    return apply_stages(x, train, self.width, self.depth, self.num_classes, cell)


def cell_string(operations: Iterable[int]) -> str:
  """Writes a cell as the benchmark does.

  >>> cell_string((3, 0, 1, 1, 4, 2))
  '|nor_conv_3x3~0|+|none~0|skip_connect~1|+|skip_connect~0|avg_pool_3x3~1|nor_conv_1x1~2|'
  """
  parts = [f"{OPERATIONS[operation]}~{source}" for operation, (source, _) in zip(operations, EDGES, strict=True)]
  return "+".join(f"|{'|'.join(parts[start:stop])}|" for start, stop in ((0, 1), (1, 3), (3, 6)))


@functools.cache
def _spec(uid: int) -> ModelSpec:
  operations = operations_of(uid)
  note = f" ({LISTED[uid]}; any id from 0 to {NUM_CELLS - 1} is a model)" if uid in LISTED else ""
  build = functools.partial(NasBench201, operations)
  return ModelSpec(build, (32, 32, 3), MEAN, STD, f"NAS-Bench-201 cell {cell_string(operations)}{note}")


def _make(name: str) -> ModelSpec:
  if not (name.isascii() and name.isdigit() and str(int(name)) == name):
    raise UnknownNameError(f"unknown model 'nb201-{name}'; cells are called nb201-0 to nb201-{NUM_CELLS - 1}")
  return _spec(int(name))


MODELS.register_family("nb201-", _make)
for _uid in LISTED:
  MODELS.register(f"nb201-{_uid}")(_spec(_uid))
