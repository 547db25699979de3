"""Slots against fixed batches: the same attack, the same keys, the same verdicts, in one run; and the host's own time.

jaxrobust bench engine                              # on the devices there are
JAX_NUM_CPU_DEVICES=4 jaxrobust bench engine        # host time per dispatch as with four accelerators
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks.pgd import PGD
from jaxrobust.attacks.registry import make_attack
from jaxrobust.attacks.schedule import Cascade, Example, Item, Outcome, Stage
from jaxrobust.bench.bare import bare_cost, between
from jaxrobust.bench.rows import Row, alternate
from jaxrobust.bench.workloads import Workload, data_folder, workload
from jaxrobust.core.budget import Budget
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.types import Attack
from jaxrobust.engine.api import AttackResult, ExampleArrays, attack_images
from jaxrobust.engine.example import EngineStats
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.scheduler import Engine
from jaxrobust.models.zoo import load_classifier

ATTACK = PGD(num_steps=20)
SLOTS = 16
ROBUST = "cifar10-resnet20-pgd-at-tuned"
# Host time is measured with as many slots as a pod's host sees to.
HOST_SLOTS, HOST_EXAMPLES = 2048, 16384


@dataclass(frozen=True)
class FixedBatches:
  """Does what other libraries do: every image goes through every step of one attack, at a budget of its own."""

  stage: Stage
  budgets: tuple[float, ...]
  minimal = False
  max_items: ClassVar[int] = 1
  name: ClassVar[str | None] = None

  @property
  def stages(self) -> tuple[Stage, ...]:
    return (self.stage,)

  @property
  def stops(self) -> tuple[int, ...]:
    return (self.stage.attack.num_steps,)

  def first(self, example: Example) -> Item | None:
    return Item(0, -1, self.budgets[example.position])

  def follow(self, example: Example, item: Item, outcome: Outcome) -> Item | None:
    del example, item, outcome
    return None


def fixed_batches(attack: Attack, work: Workload, eps: np.ndarray, batch: int = 128) -> np.ndarray:
  """Returns which images are robust at their eps, by the engine with nothing ever taken out early."""
  count = len(work.images)
  source = ExampleArrays(np.arange(count), work.images, work.labels, np.full(count, -1))
  robust = np.zeros(count, bool)
  with jax.default_matmul_precision("highest"):
    engine = Engine(
      work.classifier,
      FixedBatches(Stage(attack), tuple(eps.tolist())),
      source,
      eps=float(eps.max()),
      options=EngineOptions.for_platform(batch, shrink=False),
      victims=(work.classifier,),
      wants_image=None,
    )
    for verdict in engine.run():
      robust[verdict.position] = verdict.correct and not verdict.success
  return robust


def host_time(slots: int = HOST_SLOTS, count: int = HOST_EXAMPLES) -> tuple[float, EngineStats]:
  """Returns the CPU seconds of the host's thread per dispatch, for PGD-20 on a classifier that costs nothing.

  They include the calls of the compiled programs and the reads, but not the waiting for them.
  """
  rng = np.random.default_rng(0)
  weights = jnp.asarray(rng.normal(size=(64, 10)), jnp.float32)
  classifier = Classifier.from_function(lambda w, x: x.reshape(len(x), -1)[:, :64] @ w, 10, variables=weights)
  images = rng.integers(0, 256, (count, 32, 32, 3), np.uint8)
  labels = np.asarray(classifier(jnp.asarray(images, jnp.float32) / 255)).argmax(1)
  source = ExampleArrays(np.arange(count), images, labels, np.full(count, -1))
  options = EngineOptions.for_platform(slots, steps_per_dispatch=1)
  best, stats = float("inf"), EngineStats()
  for _ in range(3):  # The first one compiles.
    engine = Engine(
      classifier,
      Cascade.restarts(ATTACK, 1),
      source,
      eps=8 / 255,
      options=options,
      wants_image=None,
    )
    start, going = time.thread_time(), True
    while going:
      going = engine.turn()
      engine.collect()
    host = (time.thread_time() - start) / engine.stats.dispatches
    best, stats = (host, engine.stats) if host < best else (best, stats)
  return best, stats


def run(n: int = 512, repeats: int = 2) -> list[Row]:
  """Measures PGD-20 where nearly everything breaks (8/255) and where half survives (0.5/255)."""
  work = workload("resnet20", n)
  rows = [row for eps in ("8/255", "0.5/255") for row in _compare(work, eps, repeats)]
  bare = bare_cost(work)
  return [
    Row(f"{work.name}, bare forward", 1 / bare.forward, "images/s"),
    Row(f"{work.name}, bare gradient", 1 / bare.gradient, "images/s"),
    *rows,
    *_accelerator_rows(work),
    Row(f"host time per dispatch, {HOST_SLOTS} slots, {jax.local_device_count()} devices", 1e3 * host_time()[0], "ms"),
  ]


def idle_bound(steps: np.ndarray, per_dispatch: int) -> float:
  """Returns the fraction of useful steps where each item is dispatched whole, and its slot idles for one dispatch more.

  >>> round(idle_bound(np.full(3, 20), 4), 2), round(idle_bound(np.array([2, 2, 20]), 4), 2)
  (0.83, 0.6)
  """
  return float(steps.sum() / (per_dispatch * (np.ceil(steps / per_dispatch) + 1)).sum())


def _accelerator_rows(work: Workload) -> list[Row]:
  """Measures useful steps with the numbers meant for accelerators: four steps per dispatch, two groups of slots.

  Where most images break after two steps no engine uses four; so the robust network is beside the other one.
  """
  cases = [(work, ATTACK, "8/255", None), (work, make_attack("apgd-ce"), "0.25/255", 384)]
  if data_folder() is not None:
    robust = work._replace(name=ROBUST, classifier=load_classifier(ROBUST))
    cases.insert(1, (robust, ATTACK, "8/255", None))
  rows = []
  options = EngineOptions.for_platform(64, steps_per_dispatch=4, lookahead=1)
  for one, attack, eps, part in cases:
    result = attack_images(attack, one.classifier, one.images[:part], one.labels[:part], eps=eps, options=options)
    useful = result.stats.useful_steps / result.stats.slot_steps
    name = f"{one.name}, linf-{attack.name}-{attack.num_steps}@{eps}, K=4, lookahead 1, 64 slots"
    rows.append(Row(name, useful, "useful steps", useful=useful))
    bound = idle_bound(result.queries[result.queries > 0], 4)  # A query is a step of these attacks.
    rows.append(Row(f"{name}, with one idle dispatch each", bound, "bound"))
  return rows


def _compare(work: Workload, eps: str, repeats: int) -> list[Row]:
  def slots() -> AttackResult:
    return attack_images(ATTACK, work.classifier, work.images, work.labels, eps=eps, batch_size=SLOTS)

  budgets = np.full(len(work.images), Budget.parse(eps).value)
  contestants = {"slots": slots, "fixed": lambda: fixed_batches(ATTACK, work, budgets)}
  alternate(contestants, 1)  # Compiles.
  before = bare_cost(work)
  times, results = alternate(contestants, repeats)
  bare = between(before, bare_cost(work))
  result, count = results["slots"], len(work.images)
  equal = float(np.mean(result.robust == results["fixed"]))
  stats = result.stats
  name = f"{work.name}, linf-pgd-20@{eps}"
  return [
    Row(
      name,
      count / times["slots"],
      "images/s",
      "fixed batches",
      None,
      times["fixed"] / times["slots"],
      bare.needed(stats) / times["slots"],
      stats.useful_steps / stats.slot_steps,
    ),
    Row(f"{name}, equal flags", equal, "fraction", "fixed batches"),
    Row(f"{name}, robust accuracy", float(result.robust.mean()), "fraction"),
  ]
