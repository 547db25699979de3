"""Slots against fixed batches: the same attack, the same keys, the same verdicts, in one run."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks.pgd import PGD, PGDState
from jaxrobust.attacks.schedule import Stage
from jaxrobust.bench.bare import bare_cost, between
from jaxrobust.bench.rows import Row, alternate
from jaxrobust.bench.workloads import Workload, spread, workload
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.gradients import ImageLogits
from jaxrobust.core.keys import item_key_data
from jaxrobust.core.threat import Budget
from jaxrobust.core.types import Array, Problem
from jaxrobust.engine.api import AttackResult, attack_images
from jaxrobust.engine.success import adversarial

ATTACK = PGD(num_steps=20)
SLOTS = 16


@functools.partial(jax.jit, static_argnums=0)
def _start(attack: PGD, problems: Problem) -> PGDState:
  return jax.vmap(attack.init)(problems)


@functools.partial(jax.jit, static_argnums=0)
def _step(
  attack: PGD, classifier: Classifier, problems: Problem, states: PGDState, found: Array
) -> tuple[PGDState, Array]:
  def one(problem: Problem, state: PGDState) -> tuple[PGDState, Array]:
    state, probe = attack.step(ImageLogits(classifier, problem.key), problem, state)
    return state, adversarial(probe.logits, problem.label, problem.target, False)

  states, hit = jax.vmap(one)(problems, states)
  return states, found | hit


@jax.jit
def _look(classifier: Classifier, problems: Problem, images: Array) -> Array:
  return jax.vmap(lambda z, p: adversarial(z, p.label, p.target, False))(classifier(images), problems)


def fixed_batches(attack: PGD, work: Workload, eps: np.ndarray, batch: int = 128) -> np.ndarray:
  """What other libraries do: every image of a batch goes through every step. Which images are robust at their eps."""
  stage = Stage(attack).number
  robust = []
  for start in range(0, len(work.images), batch):
    rows = np.minimum(np.arange(start, start + batch), len(work.images) - 1)
    words = np.stack([item_key_data(0, int(row), stage, 0) for row in rows])
    keys = jax.random.wrap_key_data(jnp.asarray(words))
    target, budget = jnp.full(batch, -1), jnp.asarray(eps[rows], jnp.float32)
    plain = Problem(jnp.asarray(work.images[rows]), jnp.asarray(work.labels[rows]), target, budget, keys)
    classifier, problems = spread(work.classifier, plain)
    found = _look(classifier, problems, problems.image)
    states = _start(attack, problems)
    for _ in range(attack.num_steps):
      states, found = _step(attack, classifier, problems, states, found)
    found |= _look(classifier, problems, states.image)
    robust.append(~np.asarray(found))
  return np.concatenate(robust)[: len(work.images)]


def run(n: int = 512, repeats: int = 2) -> list[Row]:
  """PGD-20 where nearly everything breaks (8/255) and where half survives (0.5/255)."""
  work = workload("resnet20", n)
  rows = [row for eps in ("8/255", "0.5/255") for row in _compare(work, eps, repeats)]
  bare = bare_cost(work)
  return [
    Row(f"{work.name}, bare forward", 1 / bare.forward, "images/s"),
    Row(f"{work.name}, bare gradient", 1 / bare.gradient, "images/s"),
    *rows,
  ]


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
