"""Compiled programs as text: computations, instructions, loops and what crosses the links.

A compiler's own count of costs looks at the body of a loop once. Here loops are known with their trips: the compiler
writes them beside the loop (`known_trip_count`), or they follow from a condition `counter < constant`.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

BYTES = {"pred": 1, "s4": 1, "u4": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "bf16": 2, "f16": 2, "s32": 4, "u32": 4}
BYTES |= {"f32": 4, "s64": 8, "u64": 8, "f64": 8, "c64": 8, "f8e4m3fn": 1, "f8e5m2": 1, "token": 0}
COLLECTIVES = (
  *("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all"),
  *("collective-permute", "collective-broadcast"),
)

_HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\) -> .*\{$")
_NAMED = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*)$")
_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,]*)\]")
_CALLED = re.compile(r"(?:calls|to_apply|body|called_computations|branch_computations)=\{?((?:%[\w.\-]+(?:, )?)+)\}?")
_TRIPS = re.compile(r'known_trip_count\\?":\s*\{\\?"n\\?":\s*\\?"(\d+)')


class Instruction(NamedTuple):
  """One line of a computation.

  Attributes:
    kind: the text of its type; opcode; operands: names of what it takes.
    rest: what stands after the operands: attributes, metadata.
  """

  name: str
  kind: str
  opcode: str
  operands: tuple[str, ...]
  rest: str

  @property
  def calls(self) -> tuple[str, ...]:
    """Names of the computations that it runs, the condition of a loop left out."""
    return tuple(name.lstrip("%") for found in _CALLED.findall(self.rest) for name in re.split(r",\s*", found) if name)


Computation = tuple[Instruction, ...]


class Module(NamedTuple):
  """A compiled program."""

  computations: Mapping[str, Computation]
  entry: str

  def trips(self, loop: Instruction) -> int | None:
    """Returns how often a loop runs; None where that is not known before the run."""
    written = _TRIPS.search(loop.rest)
    if written:
      return int(written[1])
    condition = re.search(r"condition=%?([\w.\-]+)", loop.rest)
    lines = self.computations.get(condition[1], ()) if condition else ()
    bounds = [line for line in lines if line.opcode == "constant" and line.kind.startswith("s32[]")]
    counted = any("direction=LT" in line.rest for line in self._flat(lines))
    # The bound may be a constant of its own that a fused comparison takes.
    return int(bounds[0].operands[0]) if counted and len(bounds) == 1 else None

  def _flat(self, lines: Computation) -> Iterator[Instruction]:
    for line in lines:
      yield line
      for name in line.calls:
        yield from self._flat(self.computations.get(name, ()))


class Traffic(NamedTuple):
  """The traffic of one kind of collective in a run of a program: how often, and how many bytes of arrays."""

  times: int
  bytes: int


def array_bytes(kind: str) -> int:
  """Returns the bytes of a type, a tuple's all together.

  >>> array_bytes("(f32[2,3]{1,0:T(8,128)}, bf16[4])"), array_bytes("f32[]")
  (32, 4)
  """
  return sum(BYTES.get(name, 0) * math.prod(dimensions(inner)) for name, inner in _ARRAY.findall(kind))


def dimensions(text: str) -> tuple[int, ...]:
  """Reads `2,3`."""
  return tuple(int(extent) for extent in text.split(",") if extent)


def shape_of(kind: str) -> tuple[int, ...]:
  """Returns the extents of the first array of a type."""
  found = _ARRAY.search(kind)
  return dimensions(found[2]) if found else ()


@functools.lru_cache(maxsize=8)
def parse_module(text: str) -> Module:
  """Reads a compiled program (`compiled.as_text()`)."""
  computations: dict[str, Computation] = {}
  entry, name = "", ""
  lines: list[Instruction] = []
  for line in text.splitlines():
    header = _HEADER.match(line)
    if header:
      name, lines = header[2], []
      entry = name if header[1] else entry
    elif line.startswith("}") and name:
      computations[name], name = tuple(lines), ""
    elif name:
      found = _instruction(line)
      lines += [found] if found else []
  return Module(computations, entry)


def _instruction(line: str) -> Instruction | None:
  named = _NAMED.match(line)
  if not named:
    return None
  text = named[2]
  kind, text = _balanced(text) if text.startswith("(") else text.split(" ", 1)
  opcode, _, _ = text.strip().partition("(")
  inside, rest = _balanced(text.strip()[len(opcode) :])
  # Operands may be printed with their types.
  operands = re.findall(r"%([\w.\-]+)", inside) or [inside[1:-1]]
  return Instruction(named[1], kind, opcode, tuple(operands), rest)


def _balanced(text: str) -> tuple[str, str]:
  """Splits text that begins with a parenthesis behind the one that closes it."""
  depth = 0
  for place, letter in enumerate(text):
    depth += (letter == "(") - (letter == ")")
    if depth == 0:
      return text[: place + 1], text[place + 1 :]
  return text, ""


def collectives(module: Module) -> dict[str, Traffic]:
  """Returns what crosses the links in one run, by kind; those inside loops count as often as the loops run.

  Bytes are those of whole arrays: a gathered one after, a scattered one before. Groups of one do not communicate.
  """
  count: Counter[str] = Counter()
  size: Counter[str] = Counter()

  def walk(name: str, times: int) -> None:
    lines = {line.name: line for line in module.computations.get(name, ())}
    for line in lines.values():
      kind = line.opcode.removesuffix("-start")
      if kind in COLLECTIVES and not _alone(line):
        # A fused all-reduce whose result is sliced at once leaves each chip its part.
        scattered = kind == "all-reduce" and "all-reduce-scatter" in name
        kind = "reduce-scatter" if scattered else kind
        given = sum(array_bytes(lines[operand].kind) for operand in line.operands if operand in lines)
        whole = array_bytes(line.kind) if line.opcode == kind or kind == "all-reduce" else 0
        count[kind] += times
        size[kind] += times * max(given, whole or _result_bytes(line))
      trips = (module.trips(line) or 1) if line.opcode == "while" else 1
      for called in line.calls:
        walk(called, times * trips)

  walk(module.entry, 1)
  return {kind: Traffic(count[kind], size[kind]) for kind in sorted(count)}


def _result_bytes(line: Instruction) -> int:
  """Returns the bytes of what an asynchronous collective will have made: its type lists what it takes first."""
  parts = [array_bytes(f"{name}[{inner}]") for name, inner in _ARRAY.findall(line.kind)]
  return max(parts, default=0)


def _alone(line: Instruction) -> bool:
  groups = re.search(r"replica_groups=\{(\{\d+\}(?:,\{\d+\})*)\}", line.rest)
  return groups is not None


def library_calls(module: Module) -> dict[str, int]:
  """Returns how often each library routine is called (`__cudnn$convForward`, …), loops counted once."""
  names = re.compile(r'custom_call_target="([^"]+)"')
  found = Counter(
    match[1] for lines in module.computations.values() for line in lines if (match := names.search(line.rest))
  )
  return dict(sorted(found.items()))
