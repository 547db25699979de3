"""Training techniques against the sum of their bare evaluations: none may cost more than its own arithmetic.

  jaxrobust bench techniques [--names=mart,free-at] [--arch=resnet20]

For every robust technique: the model evaluations that its definition needs in one step, times what each costs alone
(a forward pass and an input gradient in evaluation mode, a parameter gradient in training mode, an optimizer's update),
over the step. Steps and bare evaluations are measured in turns, on random images. Wanted: an efficiency above 1 / 1.15.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

from jaxrobust.bench.bare import bare_parts, initial_variables
from jaxrobust.bench.rows import Row, alternate
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.mesh import fitting_mesh
from jaxrobust.core.registry import unknown_name
from jaxrobust.models.registry import make_model
from jaxrobust.training.composition import make_plan
from jaxrobust.training.state import init_state, state_shardings
from jaxrobust.training.step import Recipe, make_step

SHAPE = (32, 32, 3)
# Steps of every attack here: enough for the loop to dominate what is around it.
K = 3
OTHER = "other"


class Needs(NamedTuple):
  """Evaluations of one step.

  Attributes:
    forward, inputs: forward passes and input gradients in evaluation mode.
    params, updates: parameter gradients, and updates by the optimizer.
    coupled: input gradients in training mode.
  """

  forward: int = 0
  inputs: int = 0
  params: int = 1
  updates: int = 1
  coupled: int = 0


class Contestant(NamedTuple):
  """Techniques by name, their options and what they need."""

  names: tuple[str, ...]
  options: dict[str, Any]
  needs: Needs


def _one(name: str, needs: Needs, **options: Any) -> Contestant:
  return Contestant((name,), {name: options}, needs)


_STEPS = {"num_steps": K, "step_size": 0.5}
_BALLS = {"budgets": {"linf": "8/255", "l2": "0.5"}, **_STEPS}
CONTESTANTS = {
  "standard": Contestant((), {}, Needs()),
  "swa": Contestant(("swa",), {}, Needs()),
  "pgd-at": _one("pgd-at", Needs(0, K), **_STEPS),
  "pgd-at in training mode": _one("pgd-at", Needs(coupled=K), crafting="train", **_STEPS),
  "trades": _one("trades", Needs(1, K, 2), **_STEPS),
  "pgd-score": _one("pgd-score", Needs(0, K), **_STEPS),
  "trades-score": _one("trades-score", Needs(1, K, 2), **_STEPS),
  "awp": Contestant(("pgd-at", "awp"), {"pgd-at": _STEPS}, Needs(0, K, 2)),
  "he": Contestant(("pgd-at", "he"), {"pgd-at": _STEPS}, Needs(0, K)),
  "mart": _one("mart", Needs(0, K, 2), **_STEPS),
  "alp": _one("alp", Needs(0, K, 2), **_STEPS),
  "fat": _one("fat", Needs(0, K), **_STEPS),
  "free-at": _one("free-at", Needs(0, 0, 4, 4), replays=4),
  # Each target's attack, the clean logits that choose the targets, and a look at where each attack ended.
  "mm-at": _one("mm-at", Needs(1 + 2, 2 * K), targets=2, **_STEPS),
  "mm-at-fixed": _one("mm-at-fixed", Needs(1 + 2, 2 * K), targets=2, **_STEPS),
  # The adversarial image and two points of the variation.
  "vr": _one("vr", Needs(0, 3 * K, 3), **_STEPS),
  # Who is right, the attack, and the bisections.
  "mma": _one("mma", Needs(1 + 5, K, 2), bisections=5, **_STEPS),
  "distill": _one("distill", Needs(1), teacher=OTHER),
  "hat": _one("hat", Needs(1 + 1, K, 3), helper=OTHER, **_STEPS),
  "ensemble-at": _one("ensemble-at", Needs(0, 1, 2), sources=(OTHER,)),
  "multi-at average": _one("multi-at", Needs(0, 2 * K, 2), **_BALLS),
  "multi-at max": _one("multi-at", Needs(2, 2 * K), mode="max", **_BALLS),
  "multi-at random": _one("multi-at", Needs(0, K), mode="random", **_BALLS),
  "multi-at msd": _one("multi-at", Needs(2 * K, K), mode="msd", **_BALLS),
}


def run(arch: str = "resnet20", batch_size: int = 128, repeats: int = 7, names: str = "") -> Iterator[Row]:
  """Yields one row per technique: images/s, and the bare sum over the step."""
  chosen = [name.strip() for name in names.split(",") if name.strip()] or list(CONTESTANTS)
  for name in chosen:
    if name not in CONTESTANTS:
      raise unknown_name("technique of this bench", name, list(CONTESTANTS))
  if repeats < 1:
    raise InputError(f"repeats must be at least 1, got {repeats}")
  rng = np.random.default_rng(0)
  images = rng.integers(0, 256, (batch_size, *SHAPE)).astype(np.uint8)
  rows = (images, rng.integers(0, 10, batch_size).astype(np.int32), np.arange(batch_size, dtype=np.int32))
  parts = bare_parts(make_model(arch), optax.sgd(0.01, 0.9, nesterov=True), rows)
  yield from (_row(name, arch, rows, parts, repeats) for name in chosen)


def _row(name: str, arch: str, rows: Any, parts: dict[str, Callable[[], Any]], repeats: int) -> Row:
  needs, step = CONTESTANTS[name].needs, step_of(CONTESTANTS[name], arch, rows)
  wanted = {part: function for part, function in parts.items() if getattr(needs, part)}
  contestants = {"step": step, **wanted}
  alternate(contestants, 1)  # Compiles.
  best = alternate(contestants, repeats)[0]
  bare = sum(getattr(needs, part) * best[part] for part in wanted)
  return Row(f"{arch} {name}", len(rows[0]) / best["step"], "images/s", efficiency=bare / best["step"])


def step_of(contestant: Contestant, arch: str, rows: Any) -> Callable[[], Any]:
  """Returns the compiled step of a technique, called with the same rows again and again."""
  plan = make_plan(contestant.names, contestant.options)
  module = make_model(arch, 10, **dict(plan.arch_options))
  recipe = Recipe(module, 10, (0.5,) * 3, (0.25,) * 3, plan, optax.sgd(0.01, 0.9, nesterov=True), total_steps=1000)
  mesh = fitting_mesh(len(rows[0]))
  objective_state = plan.objective.init_state(rows[0].shape, len(rows[0]))
  state = init_state(
    module,
    recipe.optimizer,
    jax.random.key(0),
    SHAPE,
    plan.average is not None,
    initial_variables(module, SHAPE),
    objective_state,
  )
  shardings = state_shardings(state, mesh, "data")
  other = Classifier.from_module(make_model(arch), initial_variables(make_model(arch), SHAPE), mean=0.5, std=0.25)
  others = {name: jax.device_put(other, state_shardings(other, mesh, "data")) for name in plan.classifiers}
  step, holder = make_step(recipe, mesh, shardings, others), [jax.device_put(state, shardings)]

  def advance() -> Any:
    holder[0], report = step(holder[0], *rows)
    return report["loss"]

  return advance
