"""The whole state of a run as plain arrays, and back: a run continued from a snapshot makes the very same
dispatches as one that was never stopped, so its verdicts are equal to the last bit.

Images of open examples are not stored; they are read from the source again. What is under way on the devices is waited
for and stored as it came back.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import Any

import jax
import numpy as np

from jaxrobust.attacks.schedule import Item
from jaxrobust.engine.example import EngineStats, ExampleState, WorkItem
from jaxrobust.engine.pending import CleanBatch, Departures, Judged
from jaxrobust.engine.pool import Pool, SlotGroup, SuccessRate
from jaxrobust.engine.program import empty_slots
from jaxrobust.engine.scheduler import Engine
from jaxrobust.engine.take_in import new_example

Arrays = dict[str, np.ndarray]
# What a snapshot holds, and by which rules it was judged; one of another version is not continued.
VERSION = 4
_NUMBERS = ("position", "stage", "queries", "steps", "nan", "flat", "disagreements", "clean_prediction", "broken_at")
_FLAGS = ("correct", "success", "softmax")
_FLOATS = ("distance", "margin")
_COLUMNS = ("ranking", "logits", "reached_step", "reached_query")
_WORK = ("pause", "found", "steps", "queries", "nan", "flat")


def take_snapshot(engine: Engine) -> tuple[Arrays, dict[str, Any]]:
  """Returns arrays and plain numbers that `restore_snapshot` turns back into the same run."""
  arrays: Arrays = {}
  works = {id(work): work for work in _works(engine)}
  row_of = {key: row for row, key in enumerate(works)}
  examples = list({work.example.position: work.example for work in works.values()}.values())
  arrays |= _export_examples(examples)
  arrays |= _export_works(list(works.values()), {example.position: row for row, example in enumerate(examples)})
  number = lambda work: row_of[id(work)]
  pools = [_export_pool(arrays, f"pool{index}", pool, number) for index, pool in enumerate(engine.pools)]
  _export_tree(arrays, "outbox", engine.outbox.candidates)
  meta = {
    "version": VERSION,
    "layout": _layout(engine),
    "position": engine.reader.position,
    "turns": engine.turns,
    "image_type": engine.image_type.str,
    "stats": dataclasses.asdict(engine.stats),
    "pools": pools,
    "outbox": [[place, number(work), stop] for place, work, stop in engine.outbox.items],
    "pending": [_export_pending(arrays, f"pending{i}", entry, number) for i, entry in enumerate(engine.pending)],
  }
  return arrays, meta


def restore_snapshot(engine: Engine, arrays: Arrays, meta: dict[str, Any]) -> bool:
  """Continues a saved run in a fresh engine; False where the machine is laid out otherwise."""
  if meta.get("version") != VERSION or meta["layout"] != _layout(engine):
    return False
  examples = _import_examples(engine, arrays)
  works = _import_works(arrays, examples)
  for index, (pool, saved) in enumerate(zip(engine.pools, meta["pools"], strict=True)):
    _import_pool(engine, arrays, f"pool{index}", pool, saved, works)
  outbox = engine.outbox
  outbox.candidates = engine.device.put(_import_tree(arrays, "outbox", outbox.candidates))
  for place, work, stop in meta["outbox"]:
    outbox.items.append((place, works[work], stop))
    outbox.used[place // outbox.local] += 1
  engine.pending.extend(_import_pending(engine, arrays, f"pending{i}", s, works) for i, s in enumerate(meta["pending"]))
  engine.reader.position = meta["position"]
  engine.turns = meta["turns"]
  engine.image_type = np.dtype(meta["image_type"])
  engine.stats = EngineStats(**meta["stats"])
  engine.device.waited = engine.stats.waited
  return True


def _layout(engine: Engine) -> list[Any]:
  """What must be the same for a run to be continued."""
  sizes = [[list(pool.sizes), len(pool.groups), pool.program.steps] for pool in engine.pools]
  return [engine.options.devices.size, engine.outbox.rows, sizes]


def _works(engine: Engine) -> list[WorkItem]:
  found: list[WorkItem] = []
  for pool in engine.pools:
    found += [work for group in pool.groups for work in group.items if work is not None]
    found += pool.queue
  found += [work for _, work, _ in engine.outbox.items]
  for entry in engine.pending:
    if not isinstance(entry, CleanBatch):
      found += entry.works
  return found


def _export_tree(arrays: Arrays, name: str, tree: Any) -> None:
  for number, leaf in enumerate(jax.tree.leaves(tree)):
    arrays[f"{name}.{number}"] = np.asarray(leaf)


def _import_tree(arrays: Arrays, name: str, like: Any) -> Any:
  leaves, tree = jax.tree.flatten(like)
  return jax.tree.unflatten(tree, [arrays[f"{name}.{number}"] for number in range(len(leaves))])


def _export_pool(arrays: Arrays, name: str, pool: Pool, number: Any) -> dict[str, Any]:
  groups = []
  for index, group in enumerate(pool.groups):
    part = f"{name}.group{index}"
    _export_tree(arrays, f"{part}.slots", group.slots)
    _export_tree(arrays, f"{part}.flags", group.flags)
    _export_tree(arrays, f"{part}.judgment", group.judgment)
    arrays[f"{part}.fresh"] = group.fresh
    groups.append(
      {
        "items": [-1 if work is None else number(work) for work in group.items],
        "flags": group.flags is not None,
        "judgment": group.judgment is not None,
      }
    )
  rate = [pool.rate.trials, pool.rate.successes]
  return {"groups": groups, "queue": [number(work) for work in pool.queue], "turns": pool.turns, "rate": rate}


def _import_pool(
  engine: Engine, arrays: Arrays, name: str, pool: Pool, saved: dict[str, Any], works: list[WorkItem]
) -> None:
  pool.queue.extend(works[row] for row in saved["queue"])
  pool.turns, pool.rate = saved["turns"], SuccessRate(*saved["rate"])
  for index, (group, kept) in enumerate(zip(pool.groups, saved["groups"], strict=True)):
    if kept["items"]:
      _import_group(engine, arrays, f"{name}.group{index}", pool, group, kept, works)


def _import_group(
  engine: Engine, arrays: Arrays, name: str, pool: Pool, group: SlotGroup, kept: dict[str, Any], works: list[WorkItem]
) -> None:
  empty = empty_slots(pool.program, pool.arrays, len(kept["items"]), pool.image_shape)
  slots = engine.device.put(_import_tree(arrays, f"{name}.slots", empty))
  group.fill(slots, [None if row < 0 else works[row] for row in kept["items"]])
  group.fresh = arrays[f"{name}.fresh"]
  group.flags, group.judgment = (arrays[f"{name}.{what}.0"] if kept[what] else None for what in ("flags", "judgment"))


def _export_pending(arrays: Arrays, name: str, entry: CleanBatch | Departures | Judged, number: Any) -> dict[str, Any]:
  if isinstance(entry, CleanBatch):
    arrays[f"{name}.positions"] = entry.positions
    kept = entry.packed if entry.logits is None else [entry.logits]
    _export_tree(arrays, f"{name}.packed", kept)
    return {"kind": "clean", "turn": entry.turn, "packed": len(kept), "known": entry.logits is not None}
  _export_tree(arrays, f"{name}.images", entry.images)
  about = {"turn": entry.turn, "images": entry.images is not None}
  if isinstance(entry, Judged):
    _export_tree(arrays, f"{name}.packed", entry.packed)
    entries = [[row, number(work), stop] for row, work, stop in entry.entries]
    return {**about, "kind": "judged", "packed": len(entry.packed), "entries": entries}
  arrays[f"{name}.status"] = np.asarray(entry.status)
  _export_tree(arrays, f"{name}.packed", entry.packed)
  return {
    **about,
    "kind": "departures",
    "stage": entry.works[0].item.stage,
    "packed": entry.packed is not None,
    "works": [number(work) for work in entry.works],
    "rows": entry.rows,
    "verified": [[number(work), row, slot] for work, row, slot in entry.verified],
    "failed": [number(work) for work in entry.failed],
  }


def _import_pending(
  engine: Engine, arrays: Arrays, name: str, saved: dict[str, Any], works: list[WorkItem]
) -> CleanBatch | Departures | Judged:
  turn = saved["turn"]
  if saved["kind"] == "clean":
    positions = arrays[f"{name}.positions"]
    packed: list[Any] = [arrays[f"{name}.packed.{number}"] for number in range(saved["packed"])]
    known = packed.pop() if saved["known"] else None
    return CleanBatch(turn, positions, engine.source.take(positions), packed, known)
  images = arrays[f"{name}.images.0"] if saved["images"] else None
  if saved["kind"] == "judged":
    packed = [arrays[f"{name}.packed.{number}"] for number in range(saved["packed"])]
    return Judged(turn, [(row, works[work], stop) for row, work, stop in saved["entries"]], packed, images)
  return Departures(
    turn,
    engine.pool_of[saved["stage"]].program,
    arrays[f"{name}.status"],
    images,
    arrays[f"{name}.packed.0"] if saved["packed"] else None,
    [works[work] for work in saved["works"]],
    list(saved["rows"]),
    [(works[work], row, slot) for work, row, slot in saved["verified"]],
    [works[work] for work in saved["failed"]],
  )


def _export_examples(examples: list[ExampleState]) -> Arrays:
  best = [row for row, example in enumerate(examples) if example.best is not None]
  keys = [[row, *key] for row, example in enumerate(examples) for key in example.answers or ()]
  arrays = {
    "examples.numbers": np.array(list(map(attrgetter(*_NUMBERS), examples)), np.int64),
    "examples.flags": np.array(list(map(attrgetter(*_FLAGS), examples)), bool),
    "examples.floats": np.array(list(map(attrgetter(*_FLOATS), examples)), np.float64),
    "examples.with_best": np.array(best, np.int64),
    "examples.answer_keys": np.array(keys, np.float64).reshape(-1, 4),
  }
  columns = zip(*((e.ranking, e.logits, e.reached_step, e.reached_query) for e in examples), strict=True)
  for name, parts in zip(_COLUMNS, columns, strict=False):
    if parts[0] is not None:
      arrays[f"examples.{name}"] = np.stack(parts)
  if best:
    arrays["examples.best"] = np.stack([examples[row].best for row in best])  # type: ignore[misc]
  for number, logits in enumerate(logits for example in examples for logits in (example.answers or {}).values()):
    arrays[f"examples.answer{number}"] = logits
  return arrays


def _import_examples(engine: Engine, arrays: Arrays) -> list[ExampleState]:
  numbers = arrays["examples.numbers"]
  if not len(numbers):
    return []
  rows = engine.source.take(numbers[:, 0])
  examples = []
  for row in range(len(numbers)):
    example = new_example(engine, int(numbers[row, 0]), rows, row)
    for names, kind, values in (
      (_NUMBERS, int, numbers[row]),
      (_FLAGS, bool, arrays["examples.flags"][row]),
      (_FLOATS, float, arrays["examples.floats"][row]),
    ):
      for name, value in zip(names, values, strict=True):
        setattr(example, name, kind(value))
    for name in _COLUMNS:
      if f"examples.{name}" in arrays:
        setattr(example, name, arrays[f"examples.{name}"][row].copy())
    examples.append(example)
  for place, row in enumerate(arrays["examples.with_best"]):
    examples[row].best = arrays["examples.best"][place]
  for number, (row, eps, stop, judge) in enumerate(arrays["examples.answer_keys"].tolist()):
    examples[int(row)].answer(eps, int(stop), int(judge), arrays[f"examples.answer{number}"])
  return examples


def _export_works(works: list[WorkItem], example_rows: dict[int, int]) -> Arrays:
  width = max((max(len(work.item.memo), len(work.item.stops)) for work in works), default=0)
  lists = np.full((len(works), 2, width), np.nan)
  for row, work in enumerate(works):
    for column, values in enumerate((work.item.memo, work.item.stops)):
      lists[row, column, : len(values)] = values
  numbers = []
  for work in works:
    item = work.item
    places = [example_rows[work.example.position], item.stage, item.target, len(item.memo), len(item.stops)]
    numbers.append([*places, work.pause, int(work.found), work.steps, work.queries, work.nan, work.flat])
  reached = [np.zeros((2, 0)) if work.reached is None else np.stack(work.reached) for work in works]
  size = max((part.shape[1] for part in reached), default=0)
  table = np.full((len(works), 2, size), np.nan)
  for row, part in enumerate(reached):
    table[row, :, : part.shape[1]] = part
  return {
    "works.numbers": np.array(numbers, np.int64).reshape(-1, 5 + len(_WORK)),
    "works.eps": np.array([work.item.eps for work in works], np.float64),
    "works.lists": lists,
    "works.reached": table,
  }


def _import_works(arrays: Arrays, examples: list[ExampleState]) -> list[WorkItem]:
  works = []
  for row, (example, stage, target, memo, stops, *more) in enumerate(arrays["works.numbers"].tolist()):
    numbers = arrays["works.lists"][row]
    item = Item(
      stage,
      target,
      float(arrays["works.eps"][row]),
      tuple(numbers[0, :memo].tolist()),
      tuple(int(stop) for stop in numbers[1, :stops]),
    )
    work = WorkItem(item, examples[example])
    for name, value in zip(_WORK, more, strict=True):
      setattr(work, name, bool(value) if name == "found" else value)
    reached = arrays["works.reached"][row]
    if reached.size and not np.isnan(reached).any():
      work.reached = reached[0].astype(np.int32), reached[1].astype(np.int32)
    works.append(work)
  return works
