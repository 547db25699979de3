"""Taking in what comes back from the devices: the clean pass, items that left their slots, judgments, images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jaxrobust.attacks.schedule import Item, Outcome, rank_wrong_classes
from jaxrobust.core.budget import inside
from jaxrobust.engine.judge import Judgment, judge_logits, unpack_judgment
from jaxrobust.engine.pending import CleanBatch, Departures, Fetched, Judged, Pending
from jaxrobust.engine.status import SlotStatus, unpack_status
from jaxrobust.engine.verify import check_candidates, check_counts

if TYPE_CHECKING:
  from jaxrobust.engine.scheduler import Engine

# Logits that are all positive and sum to one are probabilities: a softmax left in the model starves every gradient.
SOFTMAX_TOLERANCE = 1e-5


def take_in(engine: Engine, entry: Pending) -> None:
  """Reads what an earlier turn has sent off, and schedules what follows from it."""
  if isinstance(entry, CleanBatch):
    _open(engine, entry)
  elif isinstance(entry, Departures):
    _record_departures(engine, entry)
  elif isinstance(entry, Judged):
    _record_judged(engine, entry)
  else:
    _record_images(engine, entry)


def _open(engine: Engine, batch: CleanBatch) -> None:
  """Opens the examples of a batch with what the clean pass says of them."""
  examples, schedule, table = batch.examples, engine.schedule, engine.examples
  count = len(examples.ids)
  judged = [unpack_judgment(engine.device.read(packed)[:count]) for packed in batch.packed]
  if batch.logits is not None:
    judged = [judge_logits(batch.logits, examples.labels, examples.targets, engine.targeted)]
  elif engine.clean is not None and len(engine.judges) == 1:
    engine.clean[int(batch.positions[0]), count] = judged[0].logits
  rows = table.open(batch.positions, examples)
  correct = _record_clean(engine, rows, judged[0], np.asarray(examples.labels))
  for number, seen in enumerate(judged[len(engine.judges) - len(engine.victims) :]):
    for row, logits in zip(rows.tolist(), seen.logits, strict=True):
      table.answer(row, 0.0, 0, number, logits.copy())
  attacked = np.ones(count, bool)
  if not schedule.stops:
    already = judged[0].met if engine.targeted else ~correct
    table["success"][rows], table["distance"][rows[already]], table["broken_at"][rows[already]] = already, 0.0, 0
    _reach(engine, rows[already], np.zeros(already.sum()))
    attacked = ~already & (engine.eps != 0.0)
  begun = np.flatnonzero(attacked)
  items = list(map(schedule.first, table.shown(rows[begun])))
  for at, row, item in zip(begun.tolist(), rows[begun].tolist(), items, strict=True):
    if item is not None:  # A copy: an open example does not hold on to the batch that it was read in.
      table.originals[row] = np.array(examples.images[at])
  _decide(engine, rows[~attacked])
  _schedule(engine, rows[begun], items)


def _record_clean(engine: Engine, rows: np.ndarray, clean: Judgment, labels: np.ndarray) -> np.ndarray:
  """Writes down what the clean pass says; returns which examples are right."""
  logits, table = clean.logits, engine.examples
  with np.errstate(invalid="ignore"):
    softmax = (logits.min(1) >= 0) & (np.abs(logits.sum(1) - 1) < SOFTMAX_TOLERANCE)
  prediction = np.where(clean.nan, -1, logits.argmax(1))
  # By the prediction alone: a tie is no answer. The margin of `goal_met` is for points that attacks find.
  correct = prediction == labels
  for name, column in (
    ("ranking", rank_wrong_classes(logits, labels)),
    ("logits", logits),
    ("margin", clean.margin),
    ("nearest", clean.margin),
    ("softmax", softmax),
    ("nan", clean.nan),
    ("clean_prediction", prediction),
    ("correct", correct),
  ):
    table[name][rows] = column
  return correct


def _schedule(engine: Engine, rows: np.ndarray, items: list[Item | None]) -> None:
  """Queues the next items of examples, or gives their verdicts where there are none."""
  going = np.array([item is not None for item in items], bool)
  if going.any():
    engine.examples.begin(rows[going], [item for item in items if item is not None])
    for row, item in zip(rows.tolist(), items, strict=True):
      if item is not None:
        engine.pool_of[item.stage].queue.append(row)
  if not going.all():
    _decide(engine, rows[~going])


def _decide(engine: Engine, rows: np.ndarray) -> None:
  """Gives the verdicts of examples, unless images of theirs are on their way."""
  table = engine.examples
  table["decided"][rows] = True
  ready = rows[table["images_due"][rows] == 0]
  if len(ready):
    engine.verdicts.append(table.close(ready))


def _record_departures(engine: Engine, entry: Departures) -> None:
  """Records what items that left their slots have cost; ends those that nobody needs to judge."""
  table, rows = engine.examples, entry.rows
  _record_costs(engine, entry, unpack_status(engine.device.read(entry.status)))
  if entry.packed is not None:
    judged = unpack_judgment(engine.device.read(entry.packed))
    mine, slots = rows[entry.verified], entry.slots[entry.verified]
    # A success that a peek has judged took no step of its own.
    engine.stats.useful_steps -= len(mine)
    engine.stats.judged += len(mine)
    table["nan"][mine] += judged.nan[slots]
    distance = judged.distance[slots].astype(np.float64)
    _record(engine, mine, distance, judged, slots, (entry.images, entry.places[entry.verified]), [])
  if entry.failed.any():
    lost = rows[entry.failed]
    _follow(engine, lost, np.full(len(lost), np.inf), np.full(len(lost), np.nan))


def _record_costs(engine: Engine, entry: Departures, status: SlotStatus) -> None:
  """Adds what items have cost since they last left or paused to their examples and to the totals."""
  table, rows, stats = engine.examples, entry.rows, engine.stats
  program = engine.pools[entry.pool].program
  steps, queries = (np.asarray(column)[entry.places] for column in (status.step, status.queries))
  check_counts(program.attack, program.samples, table["id"][rows], steps, queries)
  if program.budgets:
    reached, asked = status.reached_step[entry.places], status.reached_query[entry.places]
    table["item_reached_step"][rows] = reached + table["steps"][rows][:, None]
    table["item_reached_query"][rows] = np.where(asked < 0, -1, asked + table["queries"][rows][:, None])
  table["found"][rows] = status.found[entry.places]
  spent = {}
  for name, column in (("steps", status.step), ("queries", status.queries), ("nan", status.nan), ("flat", status.flat)):
    now = column[entry.places].astype(np.int64)
    more = now - table[f"item_{name}"][rows]
    table[f"item_{name}"][rows] = now
    table[name][rows] += more
    spent[name] = int(more.sum())
  stats.forwards += spent["queries"]
  stats.backwards += spent["steps"] * program.rule.cost.backward * program.samples
  stats.useful_steps += spent["steps"]


def _record_judged(engine: Engine, entry: Judged) -> None:
  """Takes in what the judges say of candidates."""
  table, rows, places, stops = engine.examples, entry.rows, entry.places, engine.schedule.stops
  judged = [unpack_judgment(engine.device.read(packed)) for packed in entry.packed]
  first = judged[0]
  success = check_candidates(table, rows, first, places, engine.schedule.stages, bool(stops))
  if not stops:
    last = engine.final_queries[table["item_stage"][rows]]
    table["queries"][rows] += np.where(table["found"][rows], 0, last)
    table["nan"][rows] += first.nan[places]
    table["disagreements"][rows] += table["found"][rows] & ~(first.met & first.valid)[places]
    distance = np.where(success, first.distance[places].astype(np.float64), np.inf)
    _record(engine, rows, distance, first, places, (entry.images, places), judged[1:])
    return
  budgets, after = table["item_eps"][rows].tolist(), entry.stops.tolist()
  for number, seen in enumerate(judged):
    for row, place, eps, steps in zip(rows.tolist(), places.tolist(), budgets, after, strict=True):
      table.answer(row, eps, steps, number, seen.logits[place].copy())
  table["success"][rows] |= table["found"][rows] | first.met[places]
  over = rows[entry.stops == stops[-1]]
  _follow(engine, over, np.full(len(over), np.inf), np.full(len(over), np.nan))


def _record(
  engine: Engine,
  rows: np.ndarray,
  distance: np.ndarray,
  judged: Judgment,
  places: np.ndarray,
  images: tuple[Any, np.ndarray],
  others: list[Judgment],
) -> None:
  """Records judged images, an infinite distance for a failure, and asks the schedule what follows."""
  table = engine.examples
  better, before = distance < table["distance"][rows], table["success"][rows]
  told = better | ~before
  table["logits"][rows[told]] = judged.logits[places[told]]
  table["nearest"][rows] = np.fmax(table["nearest"][rows], judged.margin[places])
  if better.any():
    mine = rows[better]
    stages = table["item_stage"][mine]
    # A success that a step has seen came from the move before; one of the last candidate from the last move.
    after_move = table["found"][mine] & engine.has_candidate[stages]
    table["broken_at"][mine] = np.where(before[better], table["broken_at"][mine], table["steps"][mine] - after_move)
    _reach(engine, mine, distance[better])
    table["success"][mine], table["distance"][mine], table["stage"][mine] = True, distance[better], stages
    _fetch(engine, mine, images[0], images[1][better])
    for number, seen in enumerate(others):
      for row, place, eps in zip(mine.tolist(), places[better], table["item_eps"][mine].tolist(), strict=True):
        table.answer(row, eps, -1, number, seen.logits[place].copy())
  _follow(engine, rows, distance, judged.margin[places])


def _reach(engine: Engine, rows: np.ndarray, distance: np.ndarray) -> None:
  """Records when budgets were first reached: as the slot saw it, or by a verified distance at the end of an item."""
  if not engine.budgets or not len(rows):
    return
  table = engine.examples
  steps, queries = table["reached_step"][rows], table["reached_query"][rows]
  inner = inside(distance[:, None], np.asarray(engine.budgets), engine.tolerance)
  # What a slot saw must agree with the verification: an attack may be wrong about its own distance.
  seen = (queries < 0) & (table["item_reached_query"][rows] >= 0) & inner
  steps = np.where(seen, table["item_reached_step"][rows], steps)
  queries = np.where(seen, table["item_reached_query"][rows], queries)
  now = (queries < 0) & inner
  table["reached_step"][rows] = np.where(now, table["steps"][rows][:, None], steps)
  table["reached_query"][rows] = np.where(now, table["queries"][rows][:, None], queries)


def _follow(engine: Engine, rows: np.ndarray, distance: np.ndarray, margin: np.ndarray) -> None:
  """Asks the schedule what follows the items of these examples, which ended at these distances."""
  table, follow = engine.examples, engine.schedule.follow
  columns = (np.isfinite(distance), distance, margin, table["item_steps"][rows])
  outcomes = map(Outcome, *(column.tolist() for column in columns))
  _schedule(engine, rows, list(map(follow, table.shown(rows), table.items(rows), outcomes)))


def _fetch(engine: Engine, rows: np.ndarray, images: Any, places: np.ndarray) -> None:
  """Sends for the images of successes that somebody wants."""
  wants, table = engine.wants_image, engine.examples
  table.images[rows] = None
  if images is None or wants is None:
    return
  wanted = np.array([wants(position) for position in table["position"][rows].tolist()], bool)
  if wanted.any():
    rows = rows[wanted]
    table["images_due"][rows] += 1
    fetched = engine.device.fetch(images, places[wanted])
    engine.pending.append(Fetched(engine.turns, rows, table["distance"][rows], fetched))


def _record_images(engine: Engine, entry: Fetched) -> None:
  """Takes in images of successes; one for which a closer success has been found meanwhile is of no use."""
  table = engine.examples
  current = table["distance"][entry.rows] == entry.distance
  for row, image, newest in zip(entry.rows.tolist(), engine.device.read_fetched(entry.images), current, strict=True):
    if newest:
      table.images[row] = image
  table["images_due"][entry.rows] -= 1
  _decide(engine, entry.rows[table["decided"][entry.rows]])
