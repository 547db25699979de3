"""`check_attack`: the claims of the engine's contract, run through the engine.

Each check is one claim; a failure is an AssertionError that names it.

Example:
  >>> from jaxrobust.attacks.registry import make_attack
  >>> check_attack(make_attack("pgd", num_steps=3))
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxrobust.attacks.losses import LOSSES
from jaxrobust.attacks.registry import attack_id
from jaxrobust.attacks.schedule import Cascade, Schedule, Stage, as_schedule, loss_name, needs_pool
from jaxrobust.core.budget import inside
from jaxrobust.core.contract import bind_threat
from jaxrobust.core.errors import InputError
from jaxrobust.core.mesh import make_mesh
from jaxrobust.core.threat import Norm, Threat
from jaxrobust.engine.api import AttackResult, attack_images
from jaxrobust.engine.options import EngineOptions
from jaxrobust.testing.fixtures import CLASSES, SHAPE, examples, fixture, starting_points
from jaxrobust.testing.steps import check_steps, claim

DEFAULT_EPS = {
  **{"linf": 0.015, "l2": 0.12, "l1": 0.5, "lpips-self": 0.3, "flow": 0.1, "color": 0.06, "rigid": 0.3, "patch": 0.2},
  **{"dct": 0.02, "warp": 0.1, "rings": 0.02, "bands": 0.1, "shapes": 0.1, "mosaic": 0.5, "flakes": 0.7},
  "gabor-field": 0.03,
}
# How far distances of two layouts may be apart: their programs round differently.
DISTANCE_TOLERANCE = 1e-6


def check_attack(attack: Any, eps: float | None = None, *, targets: bool | None = None) -> None:
  """Runs every check on an attack value; raises AssertionError with the claim that does not hold.

  Args:
    attack: the attack, or a cascade.
    eps: a budget at which some but not all examples should break; has a default for the threats of our own attacks.
    targets: whether the attack takes targets; by default True unless its loss ignores or needs them.
  """
  schedule = as_schedule(attack)
  threat = schedule.stages[0].attack.threat
  budget = _budget(threat, eps)
  for one in {attack_id(stage.attack): stage.attack for stage in schedule.stages}.values():
    check_steps(one, budget, _needs_target(schedule))
  if _needs_target(schedule) and any(stage.rank is None for stage in schedule.stages):
    # Alone, an attack that must be steered goes for the most likely wrong class.
    attack = schedule = Cascade((Stage(attack, rank=1),))
  # One slot count for everything but the check of slot counts, so that little is compiled.
  run = partial(attack_images, attack, eps=budget, options=_slots(16))
  if schedule.minimal:
    run = partial(run, budgets=(budget / 2, budget, 2 * budget))
  starts = needs_pool(schedule)
  if starts:
    run = partial(run, starts=starting_points())
  check_results(run, threat, budget, schedule)
  check_layouts(run, threat)
  check_edges(run, schedule.minimal)
  if not starts:  # Nothing to start from: all images are of one class.
    check_flat(run)
  check_nan(run)
  if targets if targets is not None else _takes_target(schedule):
    check_targeted(run, budget)


def _budget(threat: Threat, eps: float | None) -> float:
  if eps is not None:
    return float(eps)
  if threat.name not in DEFAULT_EPS:
    raise InputError(f"check_attack has no default budget for the threat {threat.name!r}; pass eps=")
  return DEFAULT_EPS[threat.name]


def _slots(count: int, mesh: Mesh | None = None) -> EngineOptions:
  mesh = make_mesh() if mesh is None else mesh
  return EngineOptions.for_platform(count + -count % mesh.size, mesh=mesh, shrink=False)


def _losses(schedule: Schedule) -> set[str]:
  names = [loss_name(stage.attack) for stage in schedule.stages]
  return {LOSSES[name].target for name in names if name is not None}


def _needs_target(schedule: Schedule) -> bool:
  return "required" in _losses(schedule)


def _takes_target(schedule: Schedule) -> bool:
  return not _losses(schedule) & {"ignored", "required"} and all(stage.rank is None for stage in schedule.stages)


def check_results(run: Callable[..., AttackResult], threat: Threat, eps: float, schedule: Schedule) -> None:
  """Checks ball, box, determinism and recomputed success."""
  classifier = fixture()
  images, labels = examples(classifier)
  result, again = run(classifier, images, labels), run(classifier, images, labels)
  claim(np.array_equal(result.images, again.images), "the same seed gives the same images")
  claim(np.isfinite(result.images).all(), "images are finite")
  claim((result.images >= 0).all() and (result.images <= 1).all(), "images stay in [0, 1]")
  bound = bind_threat(schedule.stages[0].attack, classifier).threat
  distance = _distances(bound, images, result)
  claim(inside(distance[result.success], eps, threat.tolerance(SHAPE)).all(), "perturbations stay in the ball")
  near = np.isclose(distance, result.distance, 1e-4, 1e-6)
  claim((near | ~result.success).all(), "distances are those of the images")
  predicted = np.asarray(classifier(jnp.asarray(result.images))).argmax(1)
  claim(np.array_equal(predicted != labels, result.success), "success equals success recomputed outside")
  failed = ~result.success
  claim(np.array_equal(result.images[failed], images[failed]), "without success the image is returned unchanged")


def _distances(threat: Threat, images: np.ndarray, result: AttackResult) -> np.ndarray:
  """Returns distances by another way than the engine's where there is one; a witness does not leave the engine."""
  if threat.witnessed:
    return result.distance
  if isinstance(threat, Norm):
    delta = (result.images.astype(np.float64) - images).reshape(len(images), -1)
    return np.linalg.norm(delta, {"l1": 1, "l2": 2, "linf": np.inf}[threat.name], axis=1)
  return np.asarray(jax.vmap(threat.distance)(jnp.asarray(images), jnp.asarray(result.images)))


def check_layouts(run: Callable[..., AttackResult], threat: Threat) -> None:
  """Checks that whole results do not depend on how the machine is used, with NaN and zero gradients at some points."""
  classifier = fixture("troubled")
  images, labels = examples(classifier)
  ids = np.arange(len(images))
  # Distances in features are known as far as their threat says.
  near = DISTANCE_TOLERANCE if isinstance(threat, Norm) else max(DISTANCE_TOLERANCE, threat.tolerance(images.shape[1:]))
  same = partial(_same, tolerance=near)
  baseline = run(classifier, images, labels)
  # Two groups of one slot and four steps per dispatch: three differences for the price of one compilation.
  few = EngineOptions.for_platform(2 * make_mesh().size, steps_per_dispatch=4, lookahead=1, shrink=False)
  same(baseline, run(classifier, images, labels, options=few), ids, "number of slots, groups and steps per dispatch")
  order = np.random.default_rng(0).permutation(len(images))
  same(baseline, run(classifier, images[order], labels[order], ids=order), order, "order of examples")
  same(baseline, run(classifier, images[:5], labels[:5]), ids[:5], "number of padding rows")
  devices = jax.local_devices()
  if len(devices) > 1:
    one = _slots(16, make_mesh(devices[:1]))
    same(baseline, run(classifier, images, labels, options=one), ids, "number of devices")


def _same(
  baseline: AttackResult, other: AttackResult, rows: np.ndarray, what: str, tolerance: float = DISTANCE_TOLERANCE
) -> None:
  for name in ("success", "correct", "robust", "queries", "nan", "flat", "reached_step", "reached_query"):
    one, two = baseline._asdict()[name][rows], other._asdict()[name]
    claim(np.array_equal(one, two), f"the {what} does not matter for {name}")
  near = np.allclose(baseline.distance[rows], other.distance, tolerance, tolerance)
  claim(near, f"the {what} does not matter for distance")


def check_edges(run: Callable[..., AttackResult], minimal: bool) -> None:
  """Checks results where there is nothing to do, nothing allowed, nothing left to break."""
  classifier = fixture()
  images, labels = examples(classifier, 4)
  if not minimal:
    none = run(classifier, images, labels, eps=0)
    claim(np.array_equal(none.images, images) and not none.success.any(), "eps=0 returns the image bit for bit")
  wrong = (labels + 1) % CLASSES
  already = run(classifier, images, wrong)
  claim(np.array_equal(already.images, images), "already misclassified images are returned unchanged")
  claim(already.success.all() and (already.distance == 0).all() and not already.queries.any(), "and cost nothing")
  claim(len(run(classifier, images[:0], labels[:0]).success) == 0, "an empty set gives an empty result")


def check_flat(run: Callable[..., AttackResult]) -> None:
  """Checks that a constant classifier gives finite images and no success."""
  images, _ = examples(fixture())
  flat = run(fixture("flat"), images, np.zeros(len(images), int))
  claim(np.isfinite(flat.images).all() and not flat.success.any(), "a zero gradient gives a finite image, no success")


def check_nan(run: Callable[..., AttackResult]) -> None:
  """Checks that NaN gradients give finite images, touch nobody else and are never called robust."""
  classifier = fixture("nan")
  images, labels = examples(classifier)
  bad = np.arange(len(images)) % 4 == 0
  images[bad, 0, 0, 0] = 0.95
  labels = np.asarray(classifier(jnp.asarray(images))).argmax(1)
  result = run(classifier, images, labels)
  claim(np.isfinite(result.images).all(), "NaN gradients give finite images")
  claim(not (result.robust & (result.nan > 0)).any(), "an example with NaN on the way is never robust")
  clean = run(fixture("mlp"), images, labels)
  others = ~bad & (result.nan == 0)
  claim(np.array_equal(result.success[others], clean.success[others]), "NaN in one example leaves others alone")


def check_targeted(run: Callable[..., AttackResult], eps: float) -> None:
  """Checks that with targets success means the target class."""
  classifier = fixture()
  images, labels = examples(classifier, 8)
  targets = (labels + 1) % CLASSES
  result = run(classifier, images, labels, eps=3 * eps, targets=targets)
  predicted = np.asarray(classifier(jnp.asarray(result.images))).argmax(1)
  claim(np.array_equal(predicted == targets, result.success), "targeted success means the target class")
