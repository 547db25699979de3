"""Costs of a compiled program: the compiler's own count, loops by their trips, and the time of a chip at its best.

  seconds = max(FLOPs · passes / peak, bytes / bandwidth) + bytes over the links / their bandwidth

The compiler counts the body of a loop once. Its count is multiplied by the ratio of two counts made here from the text,
with trips and without; a program without loops keeps the compiler's count as it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from jaxrobust.pods.chips import Chip
from jaxrobust.pods.hlo import Instruction, Module, Traffic, array_bytes, shape_of

# Move nothing.
_FREE = {"parameter", "tuple", "get-tuple-element", "bitcast", "constant", "after-all", "partition-id", "replica-id"}


class Costs(NamedTuple):
  """FLOPs and bytes of one run on one chip."""

  flops: float
  bytes: float

  def times(self, factor: float) -> Costs:
    return Costs(self.flops * factor, self.bytes * factor)

  def plus(self, other: Costs) -> Costs:
    return Costs(self.flops + other.flops, self.bytes + other.bytes)


def text_costs(module: Module, by_trips: bool) -> Costs:
  """Counts products and memory traffic from the text; loops by their trips, or once."""
  known: dict[str, Costs] = {}

  def cost_of(name: str) -> Costs:
    if name not in known:
      lines = {line.name: line for line in module.computations.get(name, ())}
      known[name] = Costs(
        *map(sum, zip((0.0, 0.0), *(line_costs(line, lines) for line in lines.values()), strict=True))
      )
    return known[name]

  def line_costs(line: Instruction, lines: Mapping[str, Instruction]) -> Costs:
    if line.opcode in _FREE or line.opcode.endswith("-done"):
      return Costs(0.0, 0.0)
    called = [cost_of(name) for name in line.calls]
    if line.opcode in ("while", "call", "conditional"):
      trips = (module.trips(line) or 1) if by_trips and line.opcode == "while" else 1
      return Costs(*map(sum, zip((0.0, 0.0), *called, strict=True))).times(trips)
    moved = array_bytes(line.kind) + sum(array_bytes(lines[name].kind) for name in line.operands if name in lines)
    # What a fusion computes stays on the chip: its inner lines move nothing.
    return Costs(product_flops(line, lines) + sum(cost.flops for cost in called), float(moved))

  return cost_of(module.entry)


def product_flops(line: Instruction, lines: Mapping[str, Instruction]) -> float:
  """Returns the FLOPs of a matrix product or convolution, a library's own among them; 0 for anything else."""
  library = re.search(r'custom_call_target="__(cudnn|cublas)', line.rest)
  if not (line.opcode in ("dot", "convolution") or library) or len(line.operands) < 2:
    return 0.0
  left, right = (shape_of(lines[name].kind) if name in lines else () for name in line.operands[:2])
  out = shape_of(line.kind)
  labels = re.search(r"dim_labels=\w+_(\w+)->", line.rest)
  if labels is None:
    contracted = re.search(r'rhs_contracting_dim(?:ension)?s"?[=:][{\[]([\d,"]*)', line.rest)
    axes = re.findall(r"\d+", contracted[1]) if contracted else []
    return 2.0 * math.prod(out) * math.prod(right[int(axis)] for axis in axes if int(axis) < len(right))
  # A library's gradients are named by the shapes of the convolution that they belong to.
  kernel, pixels = right, out
  if "convBackwardInput" in line.rest:
    pixels = left
  elif "convBackwardFilter" in line.rest:
    kernel, pixels = out, right
  taps = (extent for extent, axis in zip(kernel, labels[1], strict=False) if axis != "o")
  return 2.0 * math.prod(pixels) * math.prod(taps)


def looped(counted: Costs, module: Module) -> Costs:
  """Returns the compiler's count with loops by their trips."""
  once, often = text_costs(module, False), text_costs(module, True)
  ratio = lambda part: often[part] / once[part] if once[part] else 1.0
  return Costs(counted.flops * ratio(0), counted.bytes * ratio(1))


def unknown_loops(module: Module) -> int:
  """Returns how many loops run as often as their data say; they count once."""
  lines = (line for lines in module.computations.values() for line in lines)
  return sum(line.opcode == "while" and module.trips(line) is None for line in lines)


class Time(NamedTuple):
  """Seconds of a run at a chip's peaks; `bound` says what it waits for."""

  compute: float
  memory: float
  links: float

  @property
  def seconds(self) -> float:
    return max(self.compute, self.memory) + self.links

  @property
  def bound(self) -> str:
    return max(zip(self, self._fields, strict=True))[1]


def roofline(costs: Costs, traffic: Mapping[str, Traffic], chip: Chip, precision: str) -> Time:
  """Returns the time of a run at the chip's peaks.

  Args:
    precision: of products of float32; "bfloat16" for a network that computes in bfloat16.

  >>> from jaxrobust.pods.chips import CHIPS
  >>> time = roofline(Costs(197e12, 819e9 / 2), {}, CHIPS["v5e"], "highest")
  >>> time.seconds, time.bound
  (6.0, 'compute')
  """
  # An all-reduce is a scatter and a gather: each array crosses twice.
  crossing = sum((2 if kind == "all-reduce" else 1) * moved.bytes for kind, moved in traffic.items())
  compute = costs.flops * chip.passes[precision] / chip.peak
  return Time(compute, costs.bytes / chip.bandwidth, crossing / chip.links)
