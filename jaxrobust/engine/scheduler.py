"""The engine: examples in, verified verdicts out, in constant memory.

  source -> clean pass -> first item -> pool of its attack -> slots -> verification -> next item or verdict

There is one pool per attack of the schedule. The deepest pool that has a full set of slots' worth of work
goes first, so later stages never pile up and every dispatch but those at the very end is full. An example
is read only when no pool is full, which bounds what is held in memory whatever the size of the source.
"""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np

from jaxrobust.attacks.registry import attack_name
from jaxrobust.attacks.schedule import Case, Item, Outcome, Schedule, rank_wrong_classes
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.keys import CLEAN_STAGE, VERIFY_STAGE, item_key_data
from jaxrobust.core.threat import inside, slack
from jaxrobust.core.types import Attack
from jaxrobust.core.validation import check_labels
from jaxrobust.engine.judge import Case as JudgeCase
from jaxrobust.engine.judge import Judgement, check_inside, judge, judge_logits
from jaxrobust.engine.options import EngineOptions, smallest_fitting
from jaxrobust.engine.pool import Pool
from jaxrobust.engine.slots import Program
from jaxrobust.engine.tickets import Finished, Ticket
from jaxrobust.engine.verdict import CleanLogits, EngineStats, Examples, Source, Verdict

# Logits that are all positive and sum to one are probabilities: a softmax left in the model starves every gradient.
SOFTMAX_TOLERANCE = 1e-5


class Engine:
  """One run of a schedule over a source.

  Args:
    classifier: what is attacked.
    schedule: the rule that says which attacks an example goes through.
    source: the examples.
    eps: the budget; infinity for minimal attacks.
    seed: with the example's id, the only source of randomness.
    targeted: whether success means the example's target class.
    samples: forward passes per evaluation of a randomised classifier.
    options: how to use the machine.
    clean: what earlier runs on the same examples learnt of them before any attack; extended by this one.
  """

  def __init__(
    self,
    classifier: Classifier,
    schedule: Schedule,
    source: Source,
    *,
    eps: float,
    seed: int = 0,
    targeted: bool = False,
    samples: int = 1,
    options: EngineOptions | None = None,
    clean: CleanLogits | None = None,
  ):
    self.clean = clean
    self.options = options or EngineOptions.for_platform()
    self.classifier = jax.device_put(classifier, jax.sharding.NamedSharding(self.options.devices, jax.P()))
    self.schedule = schedule
    self.source = source
    self.eps = eps
    self.seed = seed
    self.targeted = targeted
    self.samples = samples if classifier.randomised else 1
    self.sizes = self.options.sizes()
    self.norm = getattr(schedule.stages[0].attack, "norm", "linf") if schedule.stages else "linf"
    self.slack = slack(self.norm, int(np.prod(source.image_shape)))
    self.stats = EngineStats()
    self.position = 0
    self.pools = self._make_pools()
    self.docket: list[Finished] = []
    self.verdicts: list[Verdict] = []

  def _make_pools(self) -> dict[Attack, Pool]:
    pools: dict[Attack, Pool] = {}
    options = self.options
    for stage in self.schedule.stages:
      if stage.attack not in pools:
        classes = self.classifier.num_classes
        program = Program(stage.attack, self.samples, options.steps_of(stage.attack), options.devices, classes)
        pools[stage.attack] = Pool(
          program,
          self.schedule.stages,
          self.sizes,
          options.lookahead,
          self.seed,
          self.source.image_shape,
          self.classifier.randomised,
        )
    return pools

  def run(self) -> Iterator[Verdict]:
    """Yields each verdict as soon as it is verified; the order depends on outcomes only."""
    going = True
    while going:
      going = self.turn()
      yield from self.collect()

  def collect(self) -> list[Verdict]:
    """The verdicts since the last call."""
    ready, self.verdicts = self.verdicts, []
    self.stats.examples += len(ready)
    return ready

  def turn(self) -> bool:
    """One scheduling decision: advance a pool, verify, or read examples. False when nothing is left."""
    exhausted = self.position >= len(self.source)
    full = next((pool for pool in reversed(self.pools.values()) if pool.full), None)
    if len(self.docket) >= self.sizes[0]:
      self._verify()
    elif full is not None:
      self._advance(full, draining=False)
    elif not exhausted:
      self._read()
    elif any(not finished.found for finished in self.docket):
      self._verify()  # Their next items may still share a batch with the work that is left.
    else:
      left = next((pool for pool in self.pools.values() if pool.load), None)
      if left is not None:
        self._advance(left, draining=True)
      elif self.docket:
        self._verify()
      else:
        return False
    return True

  def _read(self) -> None:
    """Reads a batch and passes it through the classifier unperturbed."""
    stop = min(self.position + self.sizes[0], len(self.source))
    positions = np.arange(self.position, stop)
    self.position = stop
    rows = self.source.take(positions)
    check_labels(rows.labels, len(positions), self.classifier.num_classes)
    clean = self._judge_clean(rows, int(positions[0]))
    for row, position in enumerate(positions):
      case = self.open_case(int(position), rows, row)
      logits = clean.logits[row]
      case.ranking = rank_wrong_classes(logits, case.label)
      case.margin = float(clean.margin[row])
      case.softmax = bool(logits.min() >= 0 and abs(float(logits.sum()) - 1) < SOFTMAX_TOLERANCE)
      case.nan = int(clean.nan[row])
      case.logits = logits
      case.clean_prediction = -1 if clean.nan[row] else int(np.argmax(logits))
      # By the prediction alone: a tie is no answer. The margin of `adversarial` is for points that attacks find.
      case.correct = case.clean_prediction == case.label
      if clean.adversarial[row] if self.targeted else not case.correct:
        case.success, case.distance, case.best, case.broken_at = True, 0.0, case.image, 0
        self._close(case)
      elif case.eps == 0.0:
        self._close(case)
      else:
        self._enqueue(case, self.schedule.first(case))

  def _judge_clean(self, rows: Examples, start: int) -> Judgement:
    """The clean pass over a batch, or what an earlier run has kept of it."""
    batch = start, len(rows.ids)
    if self.clean is not None and batch in self.clean:
      return judge_logits(self.clean[batch], rows.labels, rows.targets, self.targeted)
    clean = self._judge(rows.images, rows.images, rows, CLEAN_STAGE)
    if self.clean is not None:
      self.clean[batch] = clean.logits
    return clean

  def open_case(self, position: int, rows: Examples, row: int) -> Case:
    """A row of the source as a case that nothing is known of yet."""
    label, target = int(rows.labels[row]), int(rows.targets[row])
    image = np.asarray(rows.images[row], np.float32)
    return Case(position, int(rows.ids[row]), image, label, target, self.eps, False, np.zeros(0, np.int32))

  def _judge(self, images: np.ndarray, originals: np.ndarray, rows: Examples, stage: int) -> Judgement:
    count = len(rows.ids)
    labels, targets = (np.asarray(part, np.int32) for part in (rows.labels, rows.targets))
    key_data = np.stack([item_key_data(self.seed, int(example), stage, 0) for example in rows.ids])
    self.stats.judged += count
    return judge(
      self.classifier,
      self.targeted,
      JudgeCase(images, originals, labels, targets, key_data),  # type: ignore[arg-type]
      smallest_fitting(self.sizes, count),
      norm=self.norm,
      samples=self.samples,
      mesh=self.options.devices,
    )

  def _enqueue(self, case: Case, item: Item | None) -> None:
    if item is None:
      self._close(case)
    else:
      self.pools[self.schedule.stages[item.stage].attack].queue.append(Ticket(item, case))

  def _advance(self, pool: Pool, draining: bool) -> None:
    before = pool.useful_steps, pool.slot_steps
    finished = pool.advance(self.classifier, self.targeted, draining)
    cost = pool.program.cost
    self.stats.useful_steps += pool.useful_steps - before[0]
    self.stats.slot_steps += pool.slot_steps - before[1]
    for item in finished:
      self.stats.forwards += item.steps * cost.forward * self.samples
      self.stats.backwards += item.steps * cost.backward * self.samples
      case = item.ticket.case
      case.steps += item.steps
      case.queries += item.steps * cost.forward * self.samples
      case.nan += item.nan
      case.flat += item.flat
      if item.verified:
        self.stats.judged += 1
        self._record(item._replace(image=item.image.copy()), item.distance, item.margin, item.logits)
      elif item.found or hasattr(pool.program.attack, "last"):
        self.docket.append(item._replace(image=item.image.copy()))
      else:
        self._settle(item.ticket, Outcome(False, float("inf"), steps=item.steps))

  def _verify(self) -> None:
    """Judges claimed successes, and the last points of attacks that ran out of steps."""
    docket, self.docket = self.docket[: self.sizes[0]], self.docket[self.sizes[0] :]
    cases = [finished.ticket.case for finished in docket]
    images = np.stack([finished.image for finished in docket])
    rows = Examples(
      np.array([case.id for case in cases]),
      np.stack([case.image for case in cases]),
      np.array([case.label for case in cases]),
      np.array([case.target for case in cases]),
    )
    verdict = self._judge(images, rows.images, rows, VERIFY_STAGE)
    claimed = np.array([finished.found for finished in docket])
    success = verdict.adversarial & verdict.in_box
    eps = np.array([finished.ticket.item.eps for finished in docket], np.float32)
    attacks = [self.schedule.stages[finished.ticket.item.stage].attack for finished in docket]
    minimal = np.array([getattr(attack, "minimal", False) for attack in attacks])
    check_inside(
      rows.ids, verdict, eps, [attack_name(attack) for attack in attacks], claimed | success, minimal, self.slack
    )
    disagree = claimed & ~success
    success &= inside(verdict.distance, eps, self.slack)
    for row, finished in enumerate(docket):
      cases[row].nan += int(verdict.nan[row])
      cases[row].disagreements += int(disagree[row])
      distance = float(verdict.distance[row]) if success[row] else float("inf")
      self._record(finished, distance, float(verdict.margin[row]), verdict.logits[row])

  def _record(self, finished: Finished, distance: float, margin: float, logits: np.ndarray | None) -> None:
    """Books a judged image, an infinite distance for a failure, and asks the schedule what follows."""
    case = finished.ticket.case
    if distance < case.distance or not case.success:
      case.logits = logits
    if distance < case.distance:
      if not case.success:
        # A success seen while looking came from the move before; one of the last point from the last move.
        attack = self.schedule.stages[finished.ticket.item.stage].attack
        case.broken_at = case.steps - (finished.found and hasattr(attack, "last"))
      case.success, case.distance, case.best = True, distance, finished.image
      case.stage = finished.ticket.item.stage
    self._settle(finished.ticket, Outcome(distance < float("inf"), distance, margin, finished.steps))

  def _settle(self, ticket: Ticket, outcome: Outcome) -> None:
    self._enqueue(ticket.case, self.schedule.follow(ticket.case, ticket.item, outcome))

  def _close(self, case: Case) -> None:
    image = case.image if case.best is None else case.best
    self.verdicts.append(
      Verdict(
        case.position,
        case.id,
        case.correct,
        case.success,
        case.distance,
        image,
        case.stage,
        case.queries,
        case.steps,
        case.nan,
        case.flat,
        case.disagreements,
        case.softmax,
        case.label,
        case.clean_prediction,
        case.broken_at,
        case.logits,
        self.slack,
      )
    )
