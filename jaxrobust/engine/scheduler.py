"""The engine: examples in, verified verdicts out, in constant memory.

  source -> clean pass -> first item -> pool of its attack -> slots -> outbox -> verification -> next item or verdict

There is one pool per attack of the schedule. The deepest pool that has a full set of slots' worth of work
goes first, so later stages never pile up and every dispatch but those at the very end is full. An example
is read only when no pool is full, which bounds what is held in memory whatever the size of the source.

A turn makes one dispatch, then takes in what earlier turns have sent off (`pending`): the host never waits for
the work that it has just given to the devices.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np

from jaxrobust.attacks.schedule import Schedule, needs_pool
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.contract import bind_threat, split_threat
from jaxrobust.core.threat import Norm
from jaxrobust.core.types import Attack
from jaxrobust.engine.device import Device
from jaxrobust.engine.example import CleanLogits, EngineStats, Source
from jaxrobust.engine.exchange import exchange_slots
from jaxrobust.engine.memory import fitting_size, group_size
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.outbox import Outbox
from jaxrobust.engine.pending import CleanBatch, Departures, Judged, Pending
from jaxrobust.engine.pool import Pool, SlotGroup
from jaxrobust.engine.program import Program, witness_shape
from jaxrobust.engine.reader import Reader
from jaxrobust.engine.starts import StartPool, make_starts
from jaxrobust.engine.table import ExampleTable, Verdict, Verdicts, join
from jaxrobust.engine.take_in import take_in
from jaxrobust.engine.to_judges import judge_clean, judge_outbox, predict
from jaxrobust.engine.trial import check_query_budget, check_step

# Passes of a randomized classifier: for a gradient or a verdict, and for a query of an attack without gradients.
SAMPLES = 20


class Engine:
  """One run of a schedule over a source.

  Args:
    classifier: what is attacked.
    schedule: the rule that says which attacks an example goes through.
    source: the examples.
    eps: the budget; infinity for minimal attacks.
    seed: with the example's id, the only source of randomness.
    targeted: whether success means the example's target class.
    samples: passes per query of a randomized classifier; None for 20 with gradients, and 1 without.
    verdict_samples: passes per verdict on an image.
    options: how to use the machine.
    clean: what earlier runs on the same examples learned of them before any attack; extended by this one.
    wants_image: of which examples (by position) adversarial images come back; None for none.
    budgets: of minimal attacks, for which it is kept when each was first reached.
    victims: other classifiers that are shown the same images.
    start_pool: the whole data set, for attacks that need a starting point; the source otherwise.
    start_classes: that are targets and need one; all classes by default.
    device: what dispatches to the devices.
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
    samples: int | None = None,
    verdict_samples: int = SAMPLES,
    options: EngineOptions | None = None,
    clean: CleanLogits | None = None,
    wants_image: Callable[[int], bool] | None = lambda position: True,
    budgets: Sequence[float] = (),
    victims: Sequence[Classifier] = (),
    start_pool: Source | None = None,
    start_classes: Sequence[int] | None = None,
    device: Device | None = None,
  ):
    self.options = options or EngineOptions.for_platform()
    mesh = self.options.devices
    everywhere = jax.sharding.NamedSharding(mesh, jax.P())
    self.device = device or Device(mesh)
    self.classifier = jax.device_put(classifier, everywhere)
    self.victims = tuple(self.classifier if one is classifier else jax.device_put(one, everywhere) for one in victims)
    # Images for others alone are judged by them alone.
    self.judges = self.victims if schedule.stops else (self.classifier, *self.victims)
    self.schedule, self.source, self.eps, self.seed, self.targeted = schedule, source, eps, seed, targeted
    self.samples, self.verdict_samples = samples, verdict_samples
    self.clean = clean
    self.wants_image = wants_image
    self.budgets = tuple(float(budget) for budget in budgets) if schedule.minimal else ()
    self.stats = EngineStats()
    self.draws_verdicts = any(judge.randomized for judge in self.judges)
    attacks = [bind_threat(stage.attack, self.classifier) for stage in schedule.stages]
    self.threat = attacks[0].threat if attacks else Norm("linf")
    static, arrays = split_threat(self.threat)
    self.threat_parts = static, jax.device_put(arrays, everywhere)
    self.tolerance = self.threat.tolerance(source.image_shape)
    self.pools, self.pool_of = self._make_pools(attacks)
    self.has_candidate = np.array([pool.program.rule.candidate for pool in self.pool_of], bool)
    # Of each stage, what the evaluation of a last candidate costs: without gradients it is a query like any other.
    programs = [pool.program for pool in self.pool_of]
    self.final_queries = np.array([0 if one.rule.access == "gradient" else one.samples for one in programs], int)
    self.group_size, _ = group_size(self.options, source.image_shape, len(source), 1)
    first = next(iter(self.pools), None)
    witness = witness_shape(first.program, first.arrays, source.image_shape) if first else None
    self.outbox = Outbox(self.group_size, source.image_shape, witness, mesh)
    self.reader = Reader(source, self.outbox.size, classifier.num_classes)
    self.examples = ExampleTable(self.judges[0].num_classes, len(self.budgets), eps, self.tolerance)
    self.image_type = np.dtype(np.float32)  # What the source has; known from the first batch on.
    self.turns = 0
    self.pending: deque[Pending] = deque()
    self.verdicts: list[Verdicts] = []
    self.starts = self._make_starts(start_pool or source, start_classes)

  def _make_starts(self, pool: Source, classes: Sequence[int] | None) -> StartPool | None:
    """Returns the images that attacks start from or are mixed with; None where no attack wants any."""
    stages = self.schedule.stages
    if not needs_pool(self.schedule):
      return None
    steered = self.targeted or any(stage.rank is not None for stage in stages)
    started = steered and any(one.program.rule.needs_start for one in self.pools)
    wanted = range(self.classifier.num_classes) if classes is None else classes
    return make_starts(pool, functools.partial(predict, self), self.outbox.size, wanted if started else ())

  def _make_pools(self, attacks: list[Attack]) -> tuple[list[Pool], list[Pool]]:
    """Returns the pools in the order of their first stage, and the pool of each stage."""
    pools: dict[Program, Pool] = {}
    pool_of = []
    for attack in attacks:
      samples = self.samples if self.samples is not None else SAMPLES if attack.access == "gradient" else 1
      samples = samples if self.classifier.randomized else 1
      check_query_budget(attack, samples)
      check_step(attack, self.source.image_shape, self.classifier.num_classes)
      program, _ = Program.of(
        attack,
        samples=samples,
        verdict_samples=self.verdict_samples if self.classifier.randomized else 1,
        steps=self.options.steps_of(attack),
        mesh=self.options.devices,
        budgets=self.budgets if attack.minimal else (),
        complete=bool(self.schedule.stops),
      )
      if program not in pools:
        shape, arrays = self.source.image_shape, self.threat_parts[1]  # The stages of a schedule share one threat.
        size, groups = group_size(self.options, shape, len(self.source), attack.cost.parallel)
        if self.options.slots is None:
          size = fitting_size(program, self.classifier, arrays, size, shape)
        sizes = self.options.sizes(size)
        # A randomized classifier is judged with keys that a peek does not have, and a peek shows nothing to others.
        may_peek = not self.classifier.randomized and not self.victims
        pools[program] = Pool(program, arrays, self.schedule.stages, sizes, groups, shape, may_peek)
      pool_of.append(pools[program])
    return list(pools.values()), pool_of

  @property
  def slots(self) -> int:
    """Slots of the largest pool, or the rows of a clean pass where there is none."""
    return max((pool.sizes[0] * len(pool.groups) for pool in self.pools), default=self.outbox.size)

  def run(self) -> Iterator[Verdict]:
    """Yields each verdict as soon as it is verified; the order depends on outcomes only."""
    going = True
    while going:
      going = self.turn()
      yield from self.collect()

  def collect(self) -> Verdicts:
    """Returns the verdicts since the last call."""
    ready, self.verdicts = join(self.verdicts, self.examples), []
    self.stats.examples += len(ready)
    return ready

  def turn(self) -> bool:
    """Makes one dispatch, and takes in what earlier turns have sent off. False when nothing is left."""
    self.turns += 1
    dispatched = self._dispatch()
    if not dispatched and not self.pending:
      self.reader.close()
      return False
    while self.pending and self.pending[0].turn < self.turns:
      take_in(self, self.pending.popleft())
    self.stats.waited = self.device.waited
    return True

  def _dispatch(self) -> bool:
    """Gives work to the devices: a full pool, the clean pass of a batch, or what is left. False if there is none."""
    full = next((pool for pool in reversed(self.pools) if pool.full), None)
    if full is not None:
      self._step(full, draining=False)
    elif not self.reader.exhausted:
      self._read()
    elif self._awaited():
      # What is under way may still lead to items that share a dispatch with those that are left.
      return judge_outbox(self)
    else:
      left = next((pool for pool in self.pools if pool.load), None)
      if left is not None:
        self._step(left, draining=True)
      elif len(self.outbox):
        judge_outbox(self)
      else:
        return False
    return True

  def _awaited(self) -> bool:
    """Returns whether anything is under way that may be followed by another item."""
    if any(isinstance(entry, CleanBatch) for entry in self.pending):
      return True
    under_way = (entry.rows for entry in self.pending if isinstance(entry, Departures | Judged))
    rows = np.concatenate([self.outbox.waiting, *under_way])
    more, last = self.schedule.max_items > 1, len(self.schedule.stages) - 1
    return bool((more | (self.examples["item_stage"][rows] < last) & ~self.examples["found"][rows]).any())

  @property
  def opened(self) -> int:
    """Examples that have been through the clean pass."""
    return self.reader.position - sum(len(entry.positions) for entry in self.pending if isinstance(entry, CleanBatch))

  def items_left(self) -> tuple[np.ndarray, np.ndarray]:
    """Returns the stages of all items, and which of them have left their slots and wait for a judgment alone."""
    to_judge = np.zeros(len(self.examples.records), bool)
    to_judge[self.outbox.waiting] = True
    for kind, waits in ((Judged, True), (Departures, False)):  # What slots have counted is taken in first.
      for entry in self.pending:
        if isinstance(entry, kind):
          to_judge[entry.rows] = waits
    rows = np.flatnonzero(self.examples["open"] & ~self.examples["decided"])
    return self.examples["item_stage"][rows], to_judge[rows]

  def _step(self, pool: Pool, draining: bool) -> None:
    """Makes one turn of a group of slots."""
    group = pool.next_group()
    peeked = group.judgment is not None
    idle, found = pool.idle_slots(group, self.device)
    if group.slots is None:
      pool.fit(group, self.device, draining)
    exchange_slots(self, pool, group, idle, found)
    group.judgment = None
    if draining:
      pool.fit(group, self.device, draining)
    elif not peeked and group.active < len(group.rows):
      return  # More of its slots had fallen idle than items waited: there may be others to share a dispatch with.
    self._send(pool, group, peek=pool.peeking and not peeked)

  def _send(self, pool: Pool, group: SlotGroup, peek: bool) -> None:
    """Dispatches a peek or K steps of a group, if it has anything in it."""
    if not group.active:
      return
    arguments = (pool.program, self.classifier, pool.arrays, group.slots, self.targeted)
    if peek:
      group.slots, group.flags, group.judgment = self.device.peek(*arguments)
    else:
      group.slots, group.flags = self.device.advance(*arguments)
      self.stats.slot_steps += len(group.rows) * pool.program.steps
    self.stats.dispatches += 1

  def _read(self) -> None:
    """Reads a batch and sends it through the classifiers unperturbed."""
    positions, examples = self.reader.take()
    self.image_type = examples.images.dtype
    batch = int(positions[0]), len(positions)
    if self.clean is not None and batch in self.clean and len(self.judges) == 1:
      self.pending.append(CleanBatch(self.turns, positions, examples, [], self.clean[batch]))
    else:
      self.stats.judged += len(positions) * len(self.judges)
      self.pending.append(CleanBatch(self.turns, positions, examples, judge_clean(self, examples, self.judges)))
