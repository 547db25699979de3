"""The exchange of slots, from the host: which items go out, where their candidates are judged, and what comes in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jaxrobust.core.keys import VERIFY_STAGE, item_keys
from jaxrobust.engine.judge import byte_levels
from jaxrobust.engine.pending import Departures
from jaxrobust.engine.pool import Pool, SlotGroup, exchange_widths
from jaxrobust.engine.program import more_shape
from jaxrobust.engine.status import ENTRY, NEW, RESUME, pack_entries
from jaxrobust.engine.to_judges import judge_outbox

if TYPE_CHECKING:
  from jaxrobust.engine.scheduler import Engine


def exchange_slots(engine: Engine, pool: Pool, group: SlotGroup, idle: np.ndarray, found: np.ndarray) -> None:
  """Takes the items of idle slots out, and puts waiting ones into all free slots: no wait, only dispatches."""
  waiting = pool.slots_to_exchange(group, idle)
  widths = exchange_widths(len(group.rows) // pool.devices, engine.outbox.local)
  widths = widths if engine.options.shrink else widths[-1:]
  # Of each slot whether its item leaves, and whether that has succeeded.
  leaves, succeeded = np.zeros((2, len(group.rows)), bool)
  leaves[idle], succeeded[idle] = True, found
  while any(map(len, waiting)):
    width = next((width for width in widths if width >= max(map(len, waiting))), widths[-1])
    _exchange(engine, pool, group, [slots[:width] for slots in waiting], width, leaves, succeeded)
    waiting = [slots[width:] for slots in waiting]


def _exchange(
  engine: Engine,
  pool: Pool,
  group: SlotGroup,
  now: list[np.ndarray],
  width: int,
  leaves: np.ndarray,
  succeeded: np.ndarray,
) -> None:
  """Exchanges up to `width` slots of each device."""
  outbox, local = engine.outbox, len(group.rows) // pool.devices
  places = np.concatenate([np.arange(len(slots)) for slots in now])
  order = np.argsort(places, kind="stable")  # One of each device in turn: the last items spread over all of them.
  slots, places = np.concatenate(now)[order], places[order]
  devices = slots // local
  index = devices * width + places
  entries = np.zeros(pool.devices * width, ENTRY)
  entries["row"], entries["outbox"] = local, outbox.local  # Beyond the end: padding.
  entries["row"][index] = slots % local
  departures, going = _leave(engine, pool, group, slots, index, entries, leaves[slots], succeeded[slots])
  entering = [pool.queue.popleft() for _ in range(min(len(pool.queue), len(slots) - int(going.sum())))]
  changed = slots[~going]
  group.active += len(entering) - int((group.rows[changed] >= 0).sum())
  group.rows[changed], group.fresh[changed] = -1, True
  group.rows[changed[: len(entering)]] = entering
  images, more = _fill(engine, pool, entries, index[~going][: len(entering)], np.array(entering, np.int64))
  placed = engine.device.place((pack_entries(entries), images, more))
  group.slots, outbox.candidates, status, candidates = engine.device.exchange(
    pool.program, pool.arrays, group.slots, outbox.candidates, *placed
  )
  if departures is not None:
    departures.status, departures.images = status, candidates if departures.verified.any() else None
    engine.pending.append(departures)


def _leave(
  engine: Engine,
  pool: Pool,
  group: SlotGroup,
  slots: np.ndarray,
  index: np.ndarray,
  entries: np.ndarray,
  leaves: np.ndarray,
  succeeded: np.ndarray,
) -> tuple[Departures | None, np.ndarray]:
  """Takes items out of their slots; returns them, and at which slots they go on after a pause."""
  going = np.zeros(len(slots), bool)
  if not leaves.any():
    return None, going
  slots, index, found = slots[leaves], index[leaves], succeeded[leaves]
  rows, table, stops = group.rows[slots], engine.examples, np.array(engine.schedule.stops)
  verified = found & (group.judgment is not None)
  failed = ~found & (not pool.program.rule.candidate)
  judged = ~verified & ~failed
  devices = slots[judged] // (len(group.rows) // pool.devices)
  if not engine.outbox.fits(devices):
    judge_outbox(engine)
  entries["outbox"][index[judged]] = engine.outbox.add(
    devices, rows[judged], stops[table["pause"][rows[judged]]] if len(stops) else -1
  )
  if engine.draws_verdicts:
    ids = table["id"][rows[judged]].tolist()
    entries["verify_key"][index[judged]] = item_keys(engine.seed, [(one, VERIFY_STAGE, 0) for one in ids])
  if len(stops):
    table["pause"][rows] += 1
    on = table["pause"][rows] < len(stops)
    entries["mode"][index[on]], entries["stop"][index[on]] = RESUME, stops[table["pause"][rows[on]]]
    going[np.flatnonzero(leaves)[on]] = True
  number = engine.pools.index(pool)
  packed = group.judgment if verified.any() else None
  return Departures(engine.turns, number, None, None, packed, rows, index, slots, verified, failed), going


def _fill(
  engine: Engine, pool: Pool, entries: np.ndarray, index: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
  """Writes new items into their entries; returns their images and the other images that the attack wants."""
  table = engine.examples
  originals = table.originals[rows]
  kinds = {image.dtype for image in originals}
  # Bytes travel as bytes; a source that has both kinds sends floats.
  kind = np.dtype(np.float32) if len(kinds) > 1 else next(iter(kinds), engine.image_type)
  images = np.zeros((len(entries), *pool.image_shape), kind)
  if not len(rows):
    return images, _other_images(engine, pool, entries, index, rows)
  for at, image in zip(index.tolist(), originals, strict=True):
    images[at] = image if image.dtype == images.dtype else byte_levels(image)
  entries["mode"][index] = NEW
  entries["stop"][index] = (*engine.schedule.stops, pool.program.rule.num_steps)[0]
  for name, column in (("label", "label"), ("target", "item_target"), ("eps", "item_eps")):
    entries[name][index] = table[column][rows]
  items = zip(table["id"][rows].tolist(), table["item_stage"][rows].tolist(), strict=True)
  entries["key"][index] = item_keys(engine.seed, [(one, *pool.stage_keys[stage]) for one, stage in items])
  return images, _other_images(engine, pool, entries, index, rows)


def _other_images(
  engine: Engine, pool: Pool, entries: np.ndarray, index: np.ndarray, rows: np.ndarray
) -> np.ndarray | None:
  """Returns the other images that the attack of new items wants, if any: bytes or floats, whatever the images are."""
  rule, starts = pool.program.rule, engine.starts
  wanted = more_shape(rule, pool.image_shape)
  if wanted is None or starts is None:
    return None
  more = np.zeros((len(entries), *wanted), starts.images.dtype)
  for at, example in zip(index.tolist(), engine.examples["id"][rows].tolist(), strict=True):
    label, target = int(entries["label"][at]), int(entries["target"][at])
    if rule.needs_start:
      more[at] = starts.choose(engine.seed, label, target)
    else:
      more[at] = starts.others(engine.seed, example, label, rule.needs_others)
  return more
