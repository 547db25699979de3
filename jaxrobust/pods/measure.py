"""One compiled program as a row: time to compile, costs, memory, traffic, and what follows for a chip at its best."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import jax

from jaxrobust.core.errors import first_line
from jaxrobust.engine.memory import compiled_bytes
from jaxrobust.pods.chips import Slice
from jaxrobust.pods.hlo import collectives, library_calls, parse_module
from jaxrobust.pods.roofline import Costs, looped, roofline, text_costs, unknown_loops
from jaxrobust.pods.work import Lower, PodNetwork, Work

# The part of a chip's memory that programs may take: the runtime and a second group of slots need some.
SHARE = 0.9


@dataclass(frozen=True)
class PodRow:
  """One program on one slice; costs and memory are those of one chip and one run.

  Attributes:
    program, arch, dtype, precision, slice: what was compiled, and for what.
    rows: slots or images per chip.
    compile_seconds: of this machine.
    flops, bytes: the compiler's count, loops by their trips; from the text alone on GPUs, whose compiler has none.
    memory, of_memory: bytes taken and there.
    collectives: kind -> [how many, bytes].
    calls: library routines, on GPUs.
    seconds, bound: at the chip's peaks, and what it waits for.
    share_flops, share_bytes: bare evaluations of the network over the program; None where there are none.
    images_per_second: per chip, if every image takes all steps.
    loops: those that run as often as their data say, counted once.
    reason: why the program is refused; empty where it is not.
  """

  program: str
  arch: str
  dtype: str
  precision: str
  slice: str
  rows: int
  compile_seconds: float = 0.0
  flops: float = 0.0
  bytes: float = 0.0
  memory: float = 0.0
  of_memory: float = 0.0
  collectives: dict[str, list[int]] = field(default_factory=dict)
  calls: dict[str, int] = field(default_factory=dict)
  seconds: float = 0.0
  bound: str = ""
  share_flops: float | None = None
  share_bytes: float | None = None
  images_per_second: float | None = None
  loops: int = 0
  reason: str = ""
  jax: str = jax.__version__

  def as_dict(self) -> dict[str, Any]:
    return asdict(self)


def bare_costs(network: PodNetwork, lower: Lower, rows: int) -> Costs:
  """Returns the costs of a bare evaluation of `rows` rows per chip."""
  with jax.default_matmul_precision(network.precision):
    compiled = lower(rows).compile()
  return compiled_costs(compiled)


def compiled_costs(compiled: jax.stages.Compiled) -> Costs:
  """Returns FLOPs and bytes of one run on one chip."""
  module = parse_module(compiled.as_text())
  counted: Any = compiled.cost_analysis()
  if not counted or "flops" not in counted:
    return text_costs(module, True)
  return looped(Costs(counted["flops"], counted["bytes accessed"]), module)


class SliceCompiler:
  """Compiles programs for one slice; bare evaluations are compiled once for each network and number of rows."""

  def __init__(self, where: Slice):
    self.where = where
    self._bare: dict[tuple[PodNetwork, str, int], Costs] = {}

  def row(self, work: Work, rows: int | None = None) -> PodRow:
    """Compiles a program for `rows` per chip, its own by default; a refusal is a reason in the row."""
    rows = rows or work.rows
    network, where = work.network, self.where
    named = PodRow(work.name, network.arch, network.dtype, network.precision, where.text, rows)
    start = time.perf_counter()
    try:
      with jax.default_matmul_precision(network.precision):
        compiled = work.lower(rows).compile()
    except jax.errors.JaxRuntimeError as error:
      if "RESOURCE_EXHAUSTED" not in str(error):
        raise
      taken = time.perf_counter() - start
      reason = f"{work.name} on {network.arch}, {rows} rows a chip: {_shortage(error)}"
      return replace(named, compile_seconds=taken, of_memory=where.chip.memory, reason=reason)
    taken = time.perf_counter() - start
    return self._measured(work, compiled, replace(named, compile_seconds=taken))

  def _measured(self, work: Work, compiled: Any, named: PodRow) -> PodRow:
    module = parse_module(compiled.as_text())
    traffic, costs = collectives(module), compiled_costs(compiled)
    chip = self.where.chip
    clock = roofline(costs, traffic, chip, work.network.arithmetic)
    memory = float(compiled_bytes(compiled))
    return replace(
      named,
      flops=costs.flops,
      bytes=costs.bytes,
      memory=memory,
      of_memory=chip.memory,
      collectives={kind: list(moved) for kind, moved in traffic.items()},
      calls=library_calls(module) if chip.platform == "cuda" else {},
      seconds=clock.seconds,
      bound=clock.bound,
      images_per_second=named.rows / (clock.seconds * work.runs) if work.needs else None,
      loops=unknown_loops(module),
      reason=_refusal(work, memory, chip.memory, traffic),
    )

  def with_shares(self, work: Work, row: PodRow) -> PodRow:
    """Returns the row with the network's share of its program, which takes other compilations."""
    if not work.needs or not row.flops or not row.bytes:
      return row
    total = Costs(0.0, 0.0)
    for name, times in work.needs.items():
      key = (work.network, name, row.rows)
      if key not in self._bare:
        self._bare[key] = bare_costs(work.network, work.bare[name], row.rows)
      total = total.plus(self._bare[key].times(times))
    return replace(row, share_flops=total.flops / row.flops, share_bytes=total.bytes / row.bytes)


def _shortage(error: Exception) -> str:
  lines = [line.strip() for line in str(error).splitlines()]
  return next((line for line in lines if "Ran out of memory" in line or "Used" in line), first_line(error))[:200]


def _refusal(work: Work, memory: float, of: float, traffic: dict[str, Any]) -> str:
  if memory > SHARE * of:
    return f"{work.name} on {work.network.arch}: {memory / 1e9:.1f} GB do not fit {SHARE:.0%} of {of / 1e9:.0f} GB"
  if work.silent and traffic:
    said = ", ".join(f"{moved.times} {kind} of {moved.bytes / 1e6:.3g} MB" for kind, moved in traffic.items())
    return f"{work.name} on {work.network.arch} communicates: {said}"
  return ""


def fit(compiler: SliceCompiler, work: Work, least: int = 1, most: int = 4096) -> PodRow:
  """Returns the row of the largest power of two of rows per chip that fits.

  Memory grows nearly in proportion to rows: what one compilation takes says where to look, and the answer is compiled.

  Args:
    least, most: rows per chip to look between.
  """
  row = compiler.row(work)
  tried = {row.rows: row}
  while True:
    fits = not row.reason
    rows = row.rows * 2 if fits else row.rows // 2
    if fits and row.memory:
      # As many doublings as the memory promises, a little spared for what does not grow evenly.
      room = SHARE * row.of_memory / row.memory
      while rows * 2 / row.rows <= 0.95 * room:
        rows *= 2
    rows = min(rows, most)
    if rows < least or rows in tried or (fits and row.memory * 2 > SHARE * row.of_memory):
      break
    row = compiler.row(work, rows)
    tried[rows] = row
  fitting = [row for row in tried.values() if not row.reason]
  return max(fitting, key=lambda row: row.rows) if fitting else row
