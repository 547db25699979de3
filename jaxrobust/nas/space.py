"""The 15,625 cells of NAS-Bench-201: ids, strings, which are isomorphic, which edges are live, who is next to whom.

Nothing here needs a data file: ids come from the authors' generator (`core.nas_cells.all_cells`). A cell is its
id, or the tuple of its six operations by edge.

  >>> len(representatives()), isomorph(3365)
  (6466, 991)
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.core.nas_cells import (
  CONV1,
  CONV3,
  EDGES,
  NONE,
  OPERATIONS,
  all_cells,
  cell_string,
  isomorphs,
  operations_of,
)

# Places of an operation in the enumeration that was shuffled into ids.
_POWERS = len(OPERATIONS) ** np.arange(len(EDGES))[::-1]


@functools.cache
def _ids() -> np.ndarray:
  """Returns the id of each cell, by its place in the enumeration."""
  ids = np.empty(len(all_cells()), np.int64)
  ids[all_cells() @ _POWERS] = np.arange(len(ids))
  return ids


def id_of(operations: Sequence[int]) -> int:
  """Finds the id of a cell.

  >>> id_of((3, 3, 3, 1, 2, 3))
  13714
  """
  if len(operations) != len(EDGES) or not all(0 <= operation < len(OPERATIONS) for operation in operations):
    raise InputError(f"a cell has {len(EDGES)} operations from 0 to {len(OPERATIONS) - 1}, got {tuple(operations)}")
  return int(_ids()[np.asarray(operations) @ _POWERS])


def parse_string(text: str) -> tuple[int, ...]:
  """Reads a cell as the benchmark writes it.

  Args:
    text: `|op~0|+|op~0|op~1|+|op~0|op~1|op~2|`.

  Returns:
    Its operations by edge.

  >>> parse_string(cell_string((3, 0, 1, 1, 4, 2)))
  (3, 0, 1, 1, 4, 2)
  """
  names = [part.partition("~")[0] for part in text.replace("+", "").split("|") if part]
  if all(name in OPERATIONS for name in names) and len(names) == len(EDGES):
    operations = tuple(OPERATIONS.index(name) for name in names)
    if cell_string(operations) == text:
      return operations
  raise InputError(f"not a cell of NAS-Bench-201: {text!r}")


def isomorph(uid: int) -> int:
  """Finds the representative of a cell: the smallest id of its class."""
  operations_of(uid)  # Refuses what is no id.
  return int(isomorphs()[uid])


@functools.cache
def representatives() -> np.ndarray:
  """Lists the 6,466 ids that represent themselves."""
  return np.flatnonzero(isomorphs() == np.arange(len(isomorphs())))


def live_edges(operations: Sequence[int]) -> tuple[bool, ...]:
  """Tells which edges lie on a path from input to output on which no operation is none.

  >>> live_edges((3, 0, 3, 1, 0, 0))
  (False, False, False, True, False, False)
  """
  reached, reaching = {0}, {3}
  for operation, (source, target) in zip(operations, EDGES, strict=True):
    if operation != NONE and source in reached:
      reached.add(target)
  for operation, (source, target) in zip(operations[::-1], EDGES[::-1], strict=True):
    if operation != NONE and target in reaching:
      reaching.add(source)
  edges = zip(operations, EDGES, strict=True)
  return tuple(operation != NONE and source in reached and target in reaching for operation, (source, target) in edges)


def kernel_params(operations: Sequence[int], live_only: bool = True) -> int:
  """Counts 1 for each 1×1 and 9 for each 3×3 convolution of a cell (arXiv:2306.06712, appendix B.2).

  Args:
    operations: by edge.
    live_only: leave out convolutions that no path to the output uses; the paper's 408 cells with 18 are found only so.

  Returns:
    0 to 54.
  """
  sizes = {CONV1: 1, CONV3: 9}
  live = live_edges(operations) if live_only else (True,) * len(EDGES)
  return sum(sizes.get(operation, 0) for operation, used in zip(operations, live, strict=True) if used)


def edit_distance(first: Sequence[int], second: Sequence[int]) -> int:
  """Counts the edges on which two cells differ.

  >>> edit_distance(operations_of(13714), operations_of(3456))
  2
  """
  return sum(a != b for a, b in zip(first, second, strict=True))


@functools.cache
def neighbors() -> np.ndarray:
  """Lists the 24 ids at edit distance 1 of every id, by edge and new operation.

  Returns:
    (15625, 24) read-only array.
  """
  codes = all_cells() @ _POWERS
  columns = []
  for edge, power in enumerate(_POWERS):
    for shift in range(1, len(OPERATIONS)):
      old = all_cells()[:, edge].astype(np.int64)
      columns.append(_ids()[codes + ((old + shift) % len(OPERATIONS) - old) * power])
  table = np.stack(columns, axis=1)
  table.flags.writeable = False
  return table


@functools.cache
def connected() -> np.ndarray:
  """Tells which ids have an edge out of the input and one into the output: those that NASLib draws at random.

  Returns:
    (15625,) read-only flags.
  """
  used = all_cells() != NONE
  leaves = [edge for edge, (source, _) in enumerate(EDGES) if source == 0]
  enters = [edge for edge, (_, target) in enumerate(EDGES) if target == 3]
  flags = used[:, leaves].any(axis=1) & used[:, enters].any(axis=1)
  flags.flags.writeable = False
  return flags


def choose_cells(text: str, seed: int = 0) -> list[int]:
  """Reads which cells are asked for.

  Args:
    text: ids, ranges and strings as the benchmark writes cells, separated by commas, as `13714,3456,0-9`; `all` for the
      6,466 that represent themselves; `random-200` for so many of those, drawn at random.
    seed: of the draw.

  Returns:
    Ids, each once, in the order asked for; drawn ones sorted.

  >>> choose_cells("3,0-2"), len(choose_cells("all")), choose_cells("random-3") == choose_cells("random-3", seed=0)
  ([3, 0, 1, 2], 6466, True)
  """
  if text == "all":
    return representatives().tolist()
  kind, _, count = text.partition("-")
  if kind == "random" and count.isdigit() and 0 < int(count) <= len(representatives()):
    return sorted(np.random.default_rng(seed).permutation(representatives())[: int(count)].tolist())
  found: dict[int, None] = {}
  for part in text.split(","):
    if part.strip().startswith("|"):
      found[id_of(parse_string(part.strip()))] = None
      continue
    first, dash, last = part.strip().partition("-")
    last = last if dash else first
    if not all(end.isascii() and end.isdigit() for end in (first, last)):
      raise InputError(
        f"cells are ids (13714,0-9), all or random-COUNT (at most {len(representatives())}), not {text!r}"
      )
    for uid in range(int(first), int(last) + 1):
      operations_of(uid)  # Refuses what is no id.
      found[uid] = None
  if not found:
    raise InputError(f"no cells in {text!r}")
  return list(found)
