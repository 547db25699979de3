"""The whole state of a run as plain arrays, and back: a run continued from a snapshot makes the very same
dispatches as one that was never stopped, so its verdicts are equal to the last bit.

Images of open examples are not stored; they are read from the source again. What is under way on the devices is waited
for and stored as it came back.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from jaxrobust.engine.example import EngineStats
from jaxrobust.engine.pending import CleanBatch, Departures, Fetched, Judged, Pending
from jaxrobust.engine.pool import Pool, SuccessRate
from jaxrobust.engine.program import empty_slots
from jaxrobust.engine.scheduler import Engine
from jaxrobust.engine.table import ExampleTable

Arrays = dict[str, np.ndarray]
# What a snapshot holds, and by which rules it was judged; one of another version is not continued.
VERSION = 6
_KINDS: dict[str, type] = {kind.__name__: kind for kind in (CleanBatch, Departures, Judged, Fetched)}


def take_snapshot(engine: Engine) -> tuple[Arrays, dict[str, Any]]:
  """Returns arrays and plain numbers that `restore_snapshot` turns back into the same run."""
  arrays: Arrays = {}
  _export_table(arrays, engine.examples)
  _export_tree(arrays, "outbox", (engine.outbox.candidates, engine.outbox.rows, engine.outbox.stops))
  meta = {
    "version": VERSION,
    "layout": _layout(engine),
    "position": engine.reader.position,
    "turns": engine.turns,
    "image_type": engine.image_type.str,
    "stats": dataclasses.asdict(engine.stats),
    "used": engine.outbox.used.tolist(),
    "pools": [_export_pool(arrays, f"pool{index}", pool) for index, pool in enumerate(engine.pools)],
    "pending": [_export_pending(engine, arrays, f"pending{i}", entry) for i, entry in enumerate(engine.pending)],
  }
  return arrays, meta


def restore_snapshot(engine: Engine, arrays: Arrays, meta: dict[str, Any]) -> bool:
  """Continues a saved run in a fresh engine; False where the machine is laid out otherwise."""
  if meta.get("version") != VERSION or meta["layout"] != _layout(engine):
    return False
  _import_table(engine, arrays)
  for index, (pool, saved) in enumerate(zip(engine.pools, meta["pools"], strict=True)):
    _import_pool(engine, arrays, f"pool{index}", pool, saved)
  outbox = engine.outbox
  candidates, outbox.rows, outbox.stops = _import_tree(arrays, "outbox", (outbox.candidates, outbox.rows, outbox.stops))
  outbox.candidates, outbox.used = engine.device.put(candidates), np.array(meta["used"])
  engine.pending.extend(_import_pending(engine, arrays, f"pending{i}", s) for i, s in enumerate(meta["pending"]))
  engine.reader.position = meta["position"]
  engine.turns = meta["turns"]
  engine.image_type = np.dtype(meta["image_type"])
  engine.stats = EngineStats(**meta["stats"])
  engine.device.waited = engine.stats.waited
  return True


def _layout(engine: Engine) -> list[Any]:
  """Returns what must be the same for a run to be continued."""
  sizes = [[list(pool.sizes), len(pool.groups), pool.program.steps] for pool in engine.pools]
  return [engine.options.devices.size, engine.outbox.size, sizes]


def _export_tree(arrays: Arrays, name: str, tree: Any) -> int:
  leaves = jax.tree.leaves(tree)
  arrays |= {f"{name}.{number}": np.asarray(leaf) for number, leaf in enumerate(leaves)}
  return len(leaves)


def _import_tree(arrays: Arrays, name: str, like: Any) -> Any:
  leaves, tree = jax.tree.flatten(like)
  return jax.tree.unflatten(tree, [arrays[f"{name}.{number}"] for number in range(len(leaves))])


def _export_pool(arrays: Arrays, name: str, pool: Pool) -> dict[str, Any]:
  groups = []
  for index, group in enumerate(pool.groups):
    parts = {"slots": group.slots, "flags": group.flags, "judgment": group.judgment}
    for part, tree in parts.items():
      _export_tree(arrays, f"{name}.group{index}.{part}", tree)
    arrays[f"{name}.group{index}.rows"], arrays[f"{name}.group{index}.fresh"] = group.rows, group.fresh
    groups.append({part: tree is not None for part, tree in parts.items()})
  rate = [pool.rate.trials, pool.rate.successes]
  return {"groups": groups, "queue": list(pool.queue), "turns": pool.turns, "rate": rate}


def _import_pool(engine: Engine, arrays: Arrays, name: str, pool: Pool, saved: dict[str, Any]) -> None:
  pool.queue.extend(saved["queue"])
  pool.turns, pool.rate = saved["turns"], SuccessRate(*saved["rate"])
  for index, (group, kept) in enumerate(zip(pool.groups, saved["groups"], strict=True)):
    part = f"{name}.group{index}"
    if kept["slots"]:
      rows = arrays[f"{part}.rows"]
      empty = empty_slots(pool.program, pool.arrays, len(rows), pool.image_shape)
      slots = engine.device.put(_import_tree(arrays, f"{part}.slots", empty))
      group.fill(slots, rows, arrays[f"{part}.fresh"])
      group.flags, group.judgment = (arrays[f"{part}.{one}.0"] if kept[one] else None for one in ("flags", "judgment"))


def _export_pending(engine: Engine, arrays: Arrays, name: str, entry: Pending) -> dict[str, Any]:
  """Stores the fields of an entry: numbers as they are, arrays under the entry's name, how many there are of each."""
  saved: dict[str, Any] = {"kind": type(entry).__name__}
  for item in dataclasses.fields(entry):
    value = vars(entry)[item.name]
    if item.name == "examples":  # Read again.
      continue
    if isinstance(entry, Fetched) and item.name == "images":
      value = np.stack(engine.device.read_fetched(value))
    if isinstance(value, int):
      saved[item.name] = value
    else:
      saved[item.name] = [_export_tree(arrays, f"{name}.{item.name}", value), isinstance(value, list)]
  return saved


def _import_pending(engine: Engine, arrays: Arrays, name: str, saved: dict[str, Any]) -> Pending:
  fields: dict[str, Any] = {}
  for field, value in saved.items():
    if isinstance(value, list):
      found: list[Any] = [arrays[f"{name}.{field}.{number}"] for number in range(value[0])]
      fields[field] = found if value[1] else next(iter(found), None)
    elif field != "kind":
      fields[field] = value
  if "positions" in fields:
    fields["examples"] = engine.source.take(fields["positions"])
  if "distance" in fields:
    count = np.arange(len(fields["images"]))
    fields["images"] = engine.device.fetch(fields["images"], count)
  return _KINDS[saved["kind"]](**fields)


def _export_table(arrays: Arrays, table: ExampleTable) -> None:
  """Stores all columns, and of what is in lists only what is there, by row."""
  arrays["examples"] = table.records
  arrays["examples.free"] = np.array(table.free, np.int64)
  rows = table.rows.tolist()
  images = [row for row in rows if table.images[row] is not None]
  arrays["examples.with_image"] = np.array(images, np.int64)
  if images:
    arrays["examples.images"] = np.stack(table.images[images].tolist())
  arrays["examples.memos"] = np.array([value for row in rows for value in table.memos[row] or ()], np.float64)
  arrays["examples.memo_sizes"] = np.array([len(table.memos[row] or ()) for row in rows], np.int64)
  answers = [(row, *key, logits) for row in rows for key, logits in (table.answers[row] or {}).items()]
  arrays["examples.answer_keys"] = np.array([answer[:4] for answer in answers], np.float64).reshape(-1, 4)
  for number, answer in enumerate(answers):
    arrays[f"examples.answer{number}"] = answer[4]


def _import_table(engine: Engine, arrays: Arrays) -> None:
  table, records = engine.examples, arrays["examples"]
  table.resize(len(records))
  table.records, table.free = records.copy(), arrays["examples.free"].tolist()
  rows = table.rows
  if not len(rows):
    return
  read = engine.source.take(table["position"][rows]).images
  for row, image in zip(rows.tolist(), read, strict=True):
    table.originals[row] = np.array(image)
  for row, image in zip(arrays["examples.with_image"].tolist(), arrays.get("examples.images", ()), strict=True):
    table.images[row] = image
  ends = np.cumsum(arrays["examples.memo_sizes"])
  for row, memo in zip(rows.tolist(), np.split(arrays["examples.memos"], ends[:-1]), strict=True):
    table.memos[row] = tuple(memo.tolist()) or None
  for number, (row, eps, steps, judge) in enumerate(arrays["examples.answer_keys"].tolist()):
    table.answer(int(row), eps, int(steps), int(judge), arrays[f"examples.answer{number}"])
