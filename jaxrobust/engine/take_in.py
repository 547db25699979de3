"""Taking in what comes back from the devices: the clean pass, items that left their slots, judgments, verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jaxrobust.attacks.schedule import Item, Outcome, rank_wrong_classes
from jaxrobust.core.budget import inside
from jaxrobust.engine.example import Examples, ExampleState, WorkItem, verdict_of
from jaxrobust.engine.judge import Judgment, judge_logits, unpack_judgment
from jaxrobust.engine.pending import CleanBatch, Departures, Judged
from jaxrobust.engine.status import unpack_status
from jaxrobust.engine.verify import check_candidates

if TYPE_CHECKING:
  from jaxrobust.engine.scheduler import Engine

# Logits that are all positive and sum to one are probabilities: a softmax left in the model starves every gradient.
SOFTMAX_TOLERANCE = 1e-5


def take_in(engine: Engine, entry: CleanBatch | Departures | Judged) -> None:
  """Reads what an earlier turn has sent off, and schedules what follows from it."""
  if isinstance(entry, CleanBatch):
    _open(engine, entry)
  elif isinstance(entry, Departures):
    _record_departures(engine, entry)
  else:
    _record_judged(engine, entry)


def _open(engine: Engine, batch: CleanBatch) -> None:
  """Opens the examples of a batch with what the clean pass says of them."""
  rows, schedule = batch.rows, engine.schedule
  count = len(rows.ids)
  judged = [unpack_judgment(engine.device.read(packed)[:count]) for packed in batch.packed]
  if batch.logits is not None:
    judged = [judge_logits(batch.logits, rows.labels, rows.targets, engine.targeted)]
  elif engine.clean is not None and len(engine.judges) == 1:
    engine.clean[int(batch.positions[0]), count] = judged[0].logits
  notes = _clean_notes(judged[0], rows.labels)
  others = judged[len(engine.judges) - len(engine.victims) :]
  for row, (position, ranking, margin, softmax, nan, prediction, met) in enumerate(
    zip(batch.positions.tolist(), *notes, strict=True)
  ):
    example = new_example(engine, position, rows, row)
    example.ranking, example.logits = ranking.copy(), judged[0].logits[row].copy()
    example.margin, example.softmax, example.nan, example.clean_prediction = margin, softmax, nan, prediction
    # By the prediction alone: a tie is no answer. The margin of `goal_met` is for points that attacks find.
    example.correct = prediction == example.label
    for number, seen in enumerate(others):
      example.answer(0.0, 0, number, seen.logits[row].copy())
    already = met if engine.targeted else not example.correct
    if schedule.complete:
      _enqueue(engine, example, schedule.first(example))
    elif already:
      example.success, example.distance, example.broken_at = True, 0.0, 0
      _reach(engine, example, 0.0)
      _enqueue(engine, example, None)
    else:
      _enqueue(engine, example, None if example.eps == 0.0 else schedule.first(example))


def _clean_notes(clean: Judgment, labels: np.ndarray) -> tuple[Any, ...]:
  """Returns columns for all rows at once: wrong classes by likelihood, margin, softmax output, NaN, prediction, met."""
  logits = clean.logits
  ranking = rank_wrong_classes(logits, labels)
  with np.errstate(invalid="ignore"):
    softmax = (logits.min(1) >= 0) & (np.abs(logits.sum(1) - 1) < SOFTMAX_TOLERANCE)
  predictions = np.where(clean.nan, -1, logits.argmax(1))
  columns = (clean.margin, softmax, clean.nan.astype(int), predictions, clean.met)
  return ranking, *(column.tolist() for column in columns)


def new_example(engine: Engine, position: int, rows: Examples, row: int) -> ExampleState:
  """Returns a row of the source as an example that nothing is known of yet."""
  label, target = int(rows.labels[row]), int(rows.targets[row])
  # A copy, so that an open example does not hold on to the batch that it was read in.
  image = np.array(rows.images[row])
  example = ExampleState(position, int(rows.ids[row]), image, label, target, engine.eps, np.zeros(0, np.int32))
  if engine.budgets:
    example.reached_step, example.reached_query = (np.full(len(engine.budgets), -1, np.int32) for _ in range(2))
  return example


def _enqueue(engine: Engine, example: ExampleState, item: Item | None) -> None:
  """Queues the next item of an example, or writes down its verdict where there is none."""
  if item is None:
    engine.verdicts.append(verdict_of(example, engine.tolerance))
  else:
    engine.pool_of[item.stage].queue.append(WorkItem(item, example))


def _record_departures(engine: Engine, entry: Departures) -> None:
  """Books what items that left their slots have cost; ends those that nobody needs to judge."""
  status = unpack_status(engine.device.read(entry.status))
  numbers = np.stack([status.step, status.queries, status.nan, status.flat, status.found], 1)[entry.rows].tolist()
  judged = None if entry.packed is None else unpack_judgment(engine.device.read(entry.packed))
  images = _wanted(engine, entry.images, [(row, work) for work, row, _ in entry.verified])
  for work, row, values in zip(entry.works, entry.rows, numbers, strict=True):
    _book(engine, entry, work, values, status, row)
  # A success that a peek has judged took no step of its own.
  engine.stats.useful_steps -= len(entry.verified)
  engine.stats.judged += len(entry.verified)
  for work, row, slot in entry.verified:
    assert judged is not None
    work.example.nan += int(judged.nan[slot])
    _record(engine, work, float(judged.distance[slot]), judged, slot, images.get(row), [])
  for work in entry.failed:
    _follow(engine, work, Outcome(False, float("inf"), steps=work.steps))


def _book(engine: Engine, entry: Departures, work: WorkItem, numbers: list[int], status: Any, row: int) -> None:
  """Adds what an item has cost since it last left or paused to its example and to the totals."""
  example, stats, program = work.example, engine.stats, entry.program
  steps, queries = numbers[0] - work.steps, numbers[1] - work.queries
  nan, flat = numbers[2] - work.nan, numbers[3] - work.flat
  work.steps, work.queries, work.nan, work.flat = numbers[:4]
  work.found = bool(numbers[4])
  stats.forwards += queries
  stats.backwards += steps * program.rule.cost.backward * program.samples
  stats.useful_steps += steps
  if program.budgets:
    seen = status.reached_query[row]
    work.reached = status.reached_step[row] + example.steps, np.where(seen < 0, -1, seen + example.queries)
  example.steps += steps
  example.queries += queries
  example.nan += nan
  example.flat += flat


def _record_judged(engine: Engine, entry: Judged) -> None:
  """Takes in what the judges say of candidates."""
  complete = engine.schedule.complete
  judged = [unpack_judgment(engine.device.read(packed)) for packed in entry.packed]
  first = judged[0]
  rows = [row for row, _, _ in entry.entries]
  seen_here = zip(first.nan[rows].tolist(), (first.met & first.valid)[rows].tolist(), strict=True)
  attacks = [engine.schedule.stages[work.item.stage].attack for work in entry.works]
  success = check_candidates(entry.entries, first, attacks, engine.tolerance, complete)
  images = _wanted(engine, entry.images, [(row, work) for row, work, _ in entry.entries if success[row]])
  distances = np.where(success, first.distance, np.inf)[rows].tolist()
  for (row, work, stop), (nan, met), distance in zip(entry.entries, seen_here, distances, strict=True):
    example = work.example
    if complete:
      for number, seen in enumerate(judged):
        example.answer(work.item.eps, stop, number, seen.logits[row].copy())
      example.success |= bool(work.found or first.met[row])
      if stop == work.item.stops[-1]:
        _follow(engine, work, Outcome(False, float("inf"), steps=work.steps))
      continue
    example.nan += nan
    example.disagreements += work.found and not met
    _record(engine, work, distance, first, row, images.get(row), judged[1:])


def _wanted(engine: Engine, images: Any, rows: list[tuple[int, WorkItem]]) -> dict[int, np.ndarray]:
  """Reads the images of successes that somebody wants."""
  wants = engine.wants_image
  if images is None or wants is None:
    return {}
  wanted = [row for row, work in rows if wants(work.example.position)]
  return dict(zip(wanted, engine.device.read_rows(images, wanted), strict=True)) if wanted else {}


def _record(
  engine: Engine,
  work: WorkItem,
  distance: float,
  judged: Judgment,
  row: int,
  image: np.ndarray | None,
  others: list[Judgment],
) -> None:
  """Books a judged image, an infinite distance for a failure, and asks the schedule what follows."""
  example = work.example
  if distance < example.distance or not example.success:
    example.logits = judged.logits[row].copy()
  if distance < example.distance:
    # A success seen while looking came from the move before; one of the last candidate from the last move.
    after_move = engine.pool_of[work.item.stage].program.rule.candidate
    if not example.success:
      example.broken_at = example.steps - (work.found and after_move)
    _reach(engine, example, distance, work)
    example.success, example.distance, example.best = True, distance, image
    example.stage = work.item.stage
    for number, seen in enumerate(others):
      example.answer(work.item.eps, -1, number, seen.logits[row].copy())
  _follow(engine, work, Outcome(distance < float("inf"), distance, float(judged.margin[row]), work.steps))


def _reach(engine: Engine, example: ExampleState, distance: float, work: WorkItem | None = None) -> None:
  """Books when budgets were first reached: as the slot saw it, or by a verified distance at the end of an item."""
  if not engine.budgets:
    return
  assert example.reached_step is not None and example.reached_query is not None
  if work is not None and work.reached is not None:
    steps, queries = work.reached
    first = (example.reached_query < 0) & (queries >= 0)
    example.reached_step[first], example.reached_query[first] = steps[first], queries[first]
  first = (example.reached_query < 0) & inside(distance, np.asarray(engine.budgets), engine.tolerance)
  example.reached_step[first], example.reached_query[first] = example.steps, example.queries


def _follow(engine: Engine, work: WorkItem, outcome: Outcome) -> None:
  _enqueue(engine, work.example, engine.schedule.follow(work.example, work.item, outcome))
