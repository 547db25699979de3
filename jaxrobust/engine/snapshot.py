"""The whole state of a run as plain arrays, and back: a run continued from a snapshot makes the very same
dispatches as one that was never stopped, so its verdicts are equal to the last bit.

Images of open examples are not stored; they are read from the source again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from jaxrobust.attacks.schedule import Case, Item
from jaxrobust.engine.pool import Pool
from jaxrobust.engine.scheduler import Engine
from jaxrobust.engine.tickets import Finished, Ticket
from jaxrobust.engine.verdict import EngineStats

Arrays = dict[str, np.ndarray]
# What a snapshot holds, and by which rules it was judged; one of another version is not continued.
VERSION = 3
_CASE_INTS = (
  "position",
  "correct",
  "success",
  "stage",
  "queries",
  "steps",
  "nan",
  "flat",
  "disagreements",
  "softmax",
  "clean_prediction",
  "broken_at",
)


def take_snapshot(engine: Engine) -> tuple[Arrays, dict[str, Any]]:
  """Arrays and plain numbers that `restore_snapshot` turns back into the same run."""
  tickets = list(_tickets(engine))
  cases = list({ticket.case.position: ticket.case for ticket in tickets}.values())
  case_rows = {case.position: row for row, case in enumerate(cases)}
  ticket_rows = {id(ticket): row for row, ticket in enumerate(tickets)}
  arrays = _export_cases(cases) | _export_tickets(tickets, case_rows)
  pools = []
  for index, pool in enumerate(engine.pools.values()):
    for leaf, array in enumerate(pool.export_slots()):
      arrays[f"pool{index}.leaf{leaf}"] = array
    seats = [-1 if seat is None else ticket_rows[id(seat)] for seat in pool.seats]
    pools.append({"seats": seats, "queue": [ticket_rows[id(t)] for t in pool.queue]} | _export_clock(pool))
  if engine.docket:
    arrays["docket.images"] = np.stack([entry.image for entry in engine.docket])
  docket = [
    [ticket_rows[id(entry.ticket)], int(entry.found), entry.steps, entry.nan, entry.flat] for entry in engine.docket
  ]
  meta = {
    "version": VERSION,
    "slots": engine.options.slots,
    "devices": engine.options.devices.size,
    "position": engine.position,
    "stats": dataclasses.asdict(engine.stats),
    "pools": pools,
    "docket": docket,
  }
  return arrays, meta


def restore_snapshot(engine: Engine, arrays: Arrays, meta: dict[str, Any]) -> bool:
  """Continues a saved run in a fresh engine; False where the machine is laid out otherwise."""
  if meta.get("version") != VERSION:
    return False
  layout = (engine.options.slots, engine.options.devices.size, len(engine.pools))
  if layout != (meta["slots"], meta["devices"], len(meta["pools"])):
    return False
  cases = _import_cases(engine, arrays)
  tickets = _import_tickets(arrays, cases)
  for index, (pool, saved) in enumerate(zip(engine.pools.values(), meta["pools"], strict=True)):
    pool.queue.extend(tickets[row] for row in saved["queue"])
    if saved["seats"]:
      leaves = [arrays[f"pool{index}.leaf{leaf}"] for leaf in range(saved["leaves"])]
      pool.import_slots(leaves, [None if row < 0 else tickets[row] for row in saved["seats"]])
    pool.import_clock(saved)
  engine.docket = [
    Finished(tickets[row], arrays["docket.images"][place], bool(found), steps, nan, flat)
    for place, (row, found, steps, nan, flat) in enumerate(meta["docket"])
  ]
  engine.position = meta["position"]
  engine.stats = EngineStats(**meta["stats"])
  return True


def _tickets(engine: Engine) -> Iterable[Ticket]:
  for pool in engine.pools.values():
    yield from (seat for seat in pool.seats if seat is not None)
    yield from pool.queue
  yield from (entry.ticket for entry in engine.docket)


def _export_clock(pool: Pool) -> dict[str, Any]:
  leaves = len(pool.export_slots()) if pool.slots is not None else 0
  return {"leaves": leaves, **pool.export_clock()}


def _export_cases(cases: list[Case]) -> Arrays:
  best = [row for row, case in enumerate(cases) if case.best is not None]
  arrays = {
    "cases.ints": np.array([[int(getattr(case, name)) for name in _CASE_INTS] for case in cases], np.int64),
    "cases.floats": np.array([[case.distance, case.margin] for case in cases], np.float64).reshape(-1, 2),
    "cases.with_best": np.array(best, np.int64),
  }
  if cases:
    arrays["cases.ranking"] = np.stack([case.ranking for case in cases])
    arrays["cases.logits"] = np.stack([case.logits for case in cases])  # type: ignore[misc]
  if best:
    arrays["cases.best"] = np.stack([cases[row].best for row in best])  # type: ignore[misc]
  return arrays


def _import_cases(engine: Engine, arrays: Arrays) -> list[Case]:
  ints = arrays["cases.ints"]
  if not len(ints):
    return []
  rows = engine.source.take(ints[:, 0])
  cases = []
  for row, values in enumerate(ints):
    case = engine.open_case(int(values[0]), rows, row)
    for name, value in zip(_CASE_INTS[1:], values[1:], strict=True):
      setattr(case, name, bool(value) if name in ("correct", "success", "softmax") else int(value))
    case.distance, case.margin = map(float, arrays["cases.floats"][row])
    case.ranking = arrays["cases.ranking"][row]
    case.logits = arrays["cases.logits"][row]
    cases.append(case)
  for place, row in enumerate(arrays["cases.with_best"]):
    cases[row].best = arrays["cases.best"][place]
  return cases


def _export_tickets(tickets: list[Ticket], case_rows: dict[int, int]) -> Arrays:
  width = max((len(ticket.item.memo) for ticket in tickets), default=0)
  memo = np.full((len(tickets), width), np.nan)
  for row, ticket in enumerate(tickets):
    memo[row, : len(ticket.item.memo)] = ticket.item.memo
  ints = [
    [case_rows[ticket.case.position], ticket.item.stage, ticket.item.target, len(ticket.item.memo)]
    for ticket in tickets
  ]
  return {
    "tickets.ints": np.array(ints, np.int64).reshape(-1, 4),
    "tickets.eps": np.array([ticket.item.eps for ticket in tickets], np.float64),
    "tickets.memo": memo,
  }


def _import_tickets(arrays: Arrays, cases: list[Case]) -> list[Ticket]:
  tickets = []
  for row, (case, stage, target, width) in enumerate(arrays["tickets.ints"]):
    memo = tuple(float(value) for value in arrays["tickets.memo"][row, :width])
    item = Item(int(stage), int(target), float(arrays["tickets.eps"][row]), memo)
    tickets.append(Ticket(item, cases[case]))
  return tickets
