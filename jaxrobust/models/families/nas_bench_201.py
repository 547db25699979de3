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
from collections.abc import Callable

import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.errors import UnknownNameError
from jaxrobust.core.nas_cells import CONV1, EDGES, NONE, NUM_CELLS, POOL, SKIP, cell_string, operations_of
from jaxrobust.core.types import Array
from jaxrobust.models.layers.basic import avg_pool, batch_norm, global_pool
from jaxrobust.models.layers.conv import Conv
from jaxrobust.models.registry import MODELS, ModelSpec

# Cells that are listed by name: the best on clean CIFAR-10 and on its corruptions (arXiv:2306.06712, appendix B.1).
LISTED = {13714: "best on clean CIFAR-10", 3456: "best on CIFAR-10-C"}
# Of the authors' training on CIFAR-10, and on their other data sets: means and deviations of pixels.
MEAN = (125.3 / 255, 123.0 / 255, 113.9 / 255)
STD = (63.0 / 255, 62.1 / 255, 66.7 / 255)
NORMALIZATIONS = {
  "cifar100": ((129.3 / 255, 124.1 / 255, 112.4 / 255), (68.2 / 255, 65.4 / 255, 70.4 / 255)),
  "imagenet16-120": ((122.68 / 255, 116.66 / 255, 104.01 / 255), (63.22 / 255, 61.26 / 255, 65.09 / 255)),
}

CellFn = Callable[[Array, str], Array]


def normalization(data: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
  """Returns what networks trained on a data set subtract from pixels and divide them by; CIFAR-10's for any other.

  >>> normalization("cifar100-train")[0][0] == 129.3 / 255, normalization("npz:mine.npz") == (MEAN, STD)
  (True, True)
  """
  return NORMALIZATIONS.get(data.partition("@")[0].removesuffix("-train"), (MEAN, STD))


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
