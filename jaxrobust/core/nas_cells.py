"""The 15,625 cells of NAS-Bench-201 as the published ids number them: operations, strings, which are isomorphic.

Nothing here needs a data file or JAX: networks (`models`), the search space (`nas`) and the data set's files
(`results.exchange`) all read the ids from here.

  >>> cell_string(all_cells()[13714].tolist())
  '|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_1x1~1|nor_conv_3x3~2|'
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterable, Sequence

import numpy as np

from jaxrobust.core.errors import UnknownNameError

OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
NONE, SKIP, CONV1, CONV3, POOL = range(5)
# Source and target of each edge, in the order of the published strings; the paper counts them from 1.
EDGES = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
NUM_CELLS = len(OPERATIONS) ** len(EDGES)


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


def cell_string(operations: Iterable[int]) -> str:
  """Writes a cell as the benchmark does.

  >>> cell_string((3, 0, 1, 1, 4, 2))
  '|nor_conv_3x3~0|+|none~0|skip_connect~1|+|skip_connect~0|avg_pool_3x3~1|nor_conv_1x1~2|'
  """
  parts = [f"{OPERATIONS[operation]}~{source}" for operation, (source, _) in zip(operations, EDGES, strict=True)]
  return "+".join(f"|{'|'.join(parts[start:stop])}|" for start, stop in ((0, 1), (1, 3), (3, 6)))


def canonical(operations: Sequence[int], consider_zero: bool | None = True) -> str:
  """Writes a cell so that isomorphic cells are written alike: the authors' `to_unique_str`.

  Node 0 is "0". An in-edge is "#" if its operation is none or its source is exactly "#", the source itself if it is a
  skip, else "(source)@operation"; a node is the sorted sum of its in-edges. This is not functional equivalence: "#+#"
  is not taken for zero and nested sums are not flattened. The published data set is indexed by it, so it stays.

  Args:
    operations: by edge.
    consider_zero: False leaves out the rule for none (12,751 classes), None also that for skips (15,625).

  Returns:
    The string of the output node.
  """
  nodes = ["0"]
  for target in range(1, 4):
    parts = []
    for operation, (source, to) in zip(operations, EDGES, strict=True):
      if to != target:
        continue
      if consider_zero and (operation == NONE or nodes[source] == "#"):
        parts.append("#")
      elif consider_zero is not None and operation == SKIP:
        parts.append(nodes[source])
      else:
        parts.append(f"({nodes[source]})@{OPERATIONS[operation]}")
    nodes.append("+".join(sorted(parts)))
  return nodes[3]


@functools.cache
def isomorphs() -> np.ndarray:
  """Lists for each id the smallest id of its class, the one that the robustness data set holds.

  Returns:
    (15625,) read-only array.
  """
  first: dict[str, int] = {}
  table = np.array([first.setdefault(canonical(cell), uid) for uid, cell in enumerate(all_cells().tolist())])
  table.flags.writeable = False
  return table
