"""The exchange of slots, from the host: which rows go out, where their candidates are judged, and what comes in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jaxrobust.core.keys import VERIFY_STAGE, item_key_data, item_keys
from jaxrobust.engine.example import WorkItem
from jaxrobust.engine.pending import Departures
from jaxrobust.engine.pool import Pool, SlotGroup, exchange_widths
from jaxrobust.engine.status import ENTRY, NEW, RESUME, pack_entries

if TYPE_CHECKING:
  from jaxrobust.engine.scheduler import Engine


def exchange_rows(engine: Engine, pool: Pool, group: SlotGroup, idle: np.ndarray, found: np.ndarray) -> None:
  """Takes the items of idle slots out, and puts waiting ones into all free slots: no wait, only dispatches."""
  succeeded = dict(zip(idle.tolist(), found.tolist(), strict=True))
  waiting = pool.rows_to_exchange(group, idle)
  widths = exchange_widths(len(group.items) // pool.devices, engine.outbox.local)
  widths = widths if engine.options.shrink else widths[-1:]
  while any(waiting):
    width = next((width for width in widths if width >= max(map(len, waiting))), widths[-1])
    now = [rows[:width] for rows in waiting]
    waiting = [rows[width:] for rows in waiting]
    _exchange(engine, pool, group, now, width, succeeded)


def _exchange(
  engine: Engine, pool: Pool, group: SlotGroup, rows: list[list[int]], width: int, succeeded: dict[int, bool]
) -> None:
  """Exchanges up to `width` rows of each device."""
  outbox, local = engine.outbox, len(group.items) // pool.devices
  peeked = group.judgment is not None
  judged = [[row for row in some if row in succeeded and _is_judged(pool, succeeded[row], peeked)] for some in rows]
  if not outbox.room([len(some) for some in judged]):
    engine.flush()
  entries = np.zeros(pool.devices * width, ENTRY)
  entries["row"], entries["outbox"] = local, outbox.local  # Beyond the end: padding.
  departures = Departures(engine.turns, pool.program, None, None, group.judgment)
  entering: list[tuple[int, WorkItem]] = []
  changed: list[int] = []
  # A row of each device in turn: the last waiting items spread over all of them.
  turns = [
    (place, device, some[place])
    for place in range(max(map(len, rows)))
    for device, some in enumerate(rows)
    if place < len(some)
  ]
  entries["row"][[device * width + place for place, device, _ in turns]] = [
    row - device * local for _, device, row in turns
  ]
  for place, device, row in turns:
    index = device * width + place
    if row in succeeded and _leave(engine, pool, group, departures, device, row, index, entries, succeeded[row]):
      continue
    work = pool.queue.popleft() if pool.queue else None
    group.active += (work is not None) - (group.items[row] is not None)
    group.items[row] = work
    changed.append(row)
    if work is not None:
      entering.append((index, work))
  group.occupied[changed], group.fresh[changed] = [group.items[row] is not None for row in changed], True
  images, starts = _fill(engine, pool, entries, entering)
  placed = engine.device.place((pack_entries(entries), images, starts))
  group.slots, outbox.candidates, status, leaving = engine.device.exchange(
    pool.program, pool.arrays, group.slots, outbox.candidates, *placed
  )
  if departures.works:
    departures.status = status
    departures.images = leaving if departures.verified else None
    engine.pending.append(departures)


def _fill(
  engine: Engine, pool: Pool, entries: np.ndarray, entering: list[tuple[int, WorkItem]]
) -> tuple[np.ndarray, np.ndarray | None]:
  """Writes new items into their rows; returns their images and, where the attack wants them, their starting points."""
  images = np.zeros((len(entries), *pool.image_shape), engine.image_type)
  starts = None
  if pool.program.rule.needs_start and engine.starts is not None:  # Bytes or floats, whatever the images are.
    starts = np.zeros(images.shape, engine.starts.images.dtype)
  if not entering:
    return images, starts
  rows = [index for index, _ in entering]
  works = [work for _, work in entering]
  for index, work in entering:
    images[index] = work.example.image
    if starts is not None and engine.starts is not None:
      starts[index] = engine.starts.choose(engine.seed, work.example.label, work.item.target)
  steps = pool.program.rule.num_steps
  entries["mode"][rows] = NEW
  entries["stop"][rows] = [work.item.stops[0] if work.item.stops else steps for work in works]
  entries["label"][rows] = [work.example.label for work in works]
  entries["target"][rows] = [work.item.target for work in works]
  entries["eps"][rows] = [work.item.eps for work in works]
  entries["key"][rows] = item_keys(
    engine.seed, [(work.example.id, *pool.stage_keys[work.item.stage]) for work in works]
  )
  return images, starts


def _is_judged(pool: Pool, found: bool, peeked: bool) -> bool:
  """Returns whether a departing item has a candidate that nobody has judged yet."""
  return (found and not peeked) or (not found and pool.program.rule.candidate)


def _leave(
  engine: Engine,
  pool: Pool,
  group: SlotGroup,
  departures: Departures,
  device: int,
  row: int,
  index: int,
  entries: np.ndarray,
  found: bool,
) -> bool:
  """Books an item out of its slot; returns whether it goes on there, after a pause."""
  work = group.items[row]
  assert work is not None
  departures.works.append(work)
  departures.rows.append(index)
  if _is_judged(pool, found, group.judgment is not None):
    stop = work.item.stops[work.pause] if work.item.stops else -1
    entries["outbox"][index] = engine.outbox.add(device, work, stop)
    if engine.draws_verdicts:
      entries["verify_key"][index] = item_key_data(engine.seed, work.example.id, VERIFY_STAGE, 0)
  elif found:
    departures.verified.append((work, index, row))
  else:
    departures.failed.append(work)
  work.pause += 1
  if work.pause < len(work.item.stops):
    entries["mode"][index], entries["stop"][index] = RESUME, work.item.stops[work.pause]
    return True
  return False
