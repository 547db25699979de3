"""Checks that every attack must pass, ours and yours alike: `check_attack(my_attack)`.

Each check is a claim of the engine's contract; a failure is an AssertionError that names the claim. The
fixtures are tiny classifiers made here, so the checks need no data, no weights and a few seconds.

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

from jaxrobust.attacks import norms
from jaxrobust.attacks.schedule import Cascade, Stage, as_schedule
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.gradients import ImageLogits
from jaxrobust.core.mesh import make_mesh
from jaxrobust.core.threat import inside
from jaxrobust.core.types import Array, Problem
from jaxrobust.engine.api import AttackResult, attack_images
from jaxrobust.engine.options import EngineOptions

CLASSES = 5
SHAPE = (6, 6, 3)
DEFAULT_EPS = {"linf": 0.015, "l2": 0.12, "l1": 0.5}


@jax.custom_vjp
def _poisoned(images: Array, threshold: Array) -> Array:
  """The identity, whose gradient is NaN for images with a first pixel above the threshold."""
  return images


def _poisoned_fwd(images: Array, threshold: Array) -> tuple[Array, Array]:
  return images, images[:, :1, :1, :1] > threshold


def _poisoned_bwd(bad: Array, cotangent: Array) -> tuple[Array, Array]:
  return jnp.where(bad, jnp.nan, cotangent), jnp.zeros(())


_poisoned.defvjp(_poisoned_fwd, _poisoned_bwd)


def _network(variables: dict[str, Array], images: Array) -> Array:
  # One function for all fixtures, so that they share compiled programs.
  pixels = _poisoned(images, variables["threshold"]).reshape(len(images), -1)
  return jnp.tanh(pixels @ variables["first"]) @ variables["second"] + variables["bias"]


def fixture(kind: str = "mlp") -> Classifier:
  """A small classifier: `mlp` (smooth), `flat` (zero gradient), `nan` (NaN where the first pixel is bright)."""
  rng = np.random.default_rng(7)
  gain = 0.0 if kind == "flat" else 1.0
  weights = {
    "first": jnp.asarray(rng.normal(size=(int(np.prod(SHAPE)), 16)) * 0.5, jnp.float32),
    "second": jnp.asarray(gain * rng.normal(size=(16, CLASSES)), jnp.float32),
    "bias": jnp.asarray((1 - gain) * np.arange(CLASSES, 0.0, -1.0), jnp.float32),
    "threshold": jnp.asarray(0.75 if kind == "nan" else 2.0, jnp.float32),
  }
  return Classifier.from_function(_network, CLASSES, variables=weights)


def examples(classifier: Classifier, count: int = 16) -> tuple[np.ndarray, np.ndarray]:
  """Images away from the box's corners, labelled as the classifier sees them."""
  images = np.random.default_rng(3).uniform(0.1, 0.7, (count, *SHAPE)).astype(np.float32)
  return images, np.asarray(classifier(jnp.asarray(images))).argmax(1)


def check_attack(attack: Any, eps: float | None = None, *, targets: bool | None = None) -> None:
  """Runs every check on an attack value; raises AssertionError with the claim that does not hold.

  Args:
    attack: the attack, or a cascade.
    eps: a budget at which some but not all examples should break; a default per norm otherwise.
    targets: whether the attack takes targets; by default True unless its loss ignores or needs them.
  """
  schedule = as_schedule(attack)
  norm = getattr(schedule.stages[0].attack, "norm", "linf")
  budget = DEFAULT_EPS[norm] if eps is None else eps
  if _needs_target(schedule) and any(stage.rank is None for stage in schedule.stages):
    # Alone, an attack that must be steered goes for the most likely wrong class.
    attack = Cascade((Stage(attack, rank=1),))
    schedule = attack
  # One slot count for everything but the check of slot counts, so that little is compiled.
  run = partial(attack_images, attack, eps=budget, options=_slots(16))
  baseline = check_results(run, norm, budget, schedule.minimal)
  check_layouts(run, baseline)
  check_edges(run, schedule.minimal)
  check_bad_gradients(run)
  check_probes(schedule.stages[0].attack, norm, budget, _needs_target(schedule))
  if targets if targets is not None else _takes_target(schedule):
    check_targeted(run, budget)


def _slots(count: int, mesh: Mesh | None = None) -> EngineOptions:
  mesh = make_mesh() if mesh is None else mesh
  return EngineOptions.for_platform(count + -count % mesh.size, mesh=mesh, shrink=False)


def _losses(schedule: Any) -> set[str]:
  from jaxrobust.attacks.losses import LOSSES

  names = {getattr(stage.attack, "loss", None) for stage in schedule.stages}
  return {LOSSES[name].target for name in names if isinstance(name, str)}


def _needs_target(schedule: Any) -> bool:
  return "required" in _losses(schedule)


def _takes_target(schedule: Any) -> bool:
  return not _losses(schedule) & {"ignored", "required"} and all(stage.rank is None for stage in schedule.stages)


def _claim(holds: Any, text: str) -> None:
  if not bool(holds):
    raise AssertionError(f"check_attack: {text}")


def check_results(run: Callable[..., AttackResult], norm: str, eps: float, minimal: bool) -> AttackResult:
  """Ball, box, determinism and recomputed success."""
  classifier = fixture()
  images, labels = examples(classifier)
  result, again = run(classifier, images, labels), run(classifier, images, labels)
  _claim(np.array_equal(result.images, again.images), "the same seed gives the same images")
  _claim(np.isfinite(result.images).all(), "images are finite")
  _claim((result.images >= 0).all() and (result.images <= 1).all(), "images stay in [0, 1]")
  delta = (result.images.astype(np.float64) - images).reshape(len(images), -1)
  order = {"l1": 1, "l2": 2, "linf": np.inf}[norm]
  distance = np.linalg.norm(delta, order, axis=1)
  _claim(inside(distance, eps).all(), "perturbations stay in the ball")
  predicted = np.asarray(classifier(jnp.asarray(result.images))).argmax(1)
  _claim(np.array_equal(predicted != labels, result.success), "success equals success recomputed outside")
  if not minimal:
    _claim((distance[~result.success] == 0).all(), "without success the image is returned unchanged")
  return result


def check_layouts(run: Callable[..., AttackResult], baseline: AttackResult) -> None:
  """Batch size, order, padding and devices do not matter."""
  classifier = fixture()
  images, labels = examples(classifier)
  ids = np.arange(len(images))
  _same(baseline, run(classifier, images, labels, options=_slots(1)), ids, "batch size 1 gives the same flags")
  order = np.random.default_rng(0).permutation(len(images))
  shuffled = run(classifier, images[order], labels[order], ids=order)
  _same(baseline, shuffled, order, "the order of examples does not matter")
  part = run(classifier, images[:5], labels[:5])
  _same(baseline, part, ids[:5], "padding rows do not matter")
  devices = jax.local_devices()
  if len(devices) > 1:
    one = _slots(16, make_mesh(devices[:1]))
    _same(baseline, run(classifier, images, labels, options=one), ids, "the number of devices does not matter")


def _same(baseline: AttackResult, other: AttackResult, rows: np.ndarray, claim: str) -> None:
  _claim(np.array_equal(baseline.success[rows], other.success), claim)


def check_edges(run: Callable[..., AttackResult], minimal: bool) -> None:
  """Nothing to do, nothing allowed, nothing left to break."""
  classifier = fixture()
  images, labels = examples(classifier, 4)
  if not minimal:
    none = run(classifier, images, labels, eps=0)
    _claim(np.array_equal(none.images, images) and not none.success.any(), "eps=0 returns the image bit for bit")
  wrong = (labels + 1) % CLASSES
  already = run(classifier, images, wrong)
  _claim(np.array_equal(already.images, images), "already misclassified images are returned unchanged")
  _claim(already.success.all() and (already.distance == 0).all() and not already.queries.any(), "and cost nothing")
  _claim(len(run(classifier, images[:0], labels[:0]).success) == 0, "an empty set gives an empty result")


def check_bad_gradients(run: Callable[..., AttackResult]) -> None:
  """Zero and NaN gradients give finite images, touch nobody else and are never called robust if NaN."""
  images, _ = examples(fixture("mlp"))
  flat = run(fixture("flat"), images, np.zeros(len(images), int))
  _claim(np.isfinite(flat.images).all() and not flat.success.any(), "a zero gradient gives a finite image, no success")
  classifier = fixture("nan")
  images, labels = examples(classifier)
  bad = np.arange(len(images)) % 4 == 0
  images[bad, 0, 0, 0] = 0.95
  labels = np.asarray(classifier(jnp.asarray(images))).argmax(1)
  result = run(classifier, images, labels)
  _claim(np.isfinite(result.images).all(), "NaN gradients give finite images")
  _claim(not (result.robust & (result.nan > 0)).any(), "an example with NaN on the way is never robust")
  clean = run(fixture("mlp"), images, labels)
  others = ~bad & (result.nan == 0)
  _claim(np.array_equal(result.success[others], clean.success[others]), "NaN in one example leaves others alone")


def check_probes(attack: Any, norm: str, eps: float, needs_target: bool) -> None:
  """Every point an attack looks at is finite, in the box and, unless it strays on purpose, in the ball."""
  classifier = fixture()
  images, labels = examples(classifier, 4)
  minimal = getattr(attack, "minimal", False)
  bound = np.inf if minimal or getattr(attack, "strays", False) else eps
  target = jnp.asarray((labels + 1) % CLASSES if needs_target else np.full(4, -1))
  budget = jnp.full(4, np.inf if minimal else eps, jnp.float32)
  problems = Problem(jnp.asarray(images), jnp.asarray(labels), target, budget, jax.random.split(jax.random.key(1), 4))

  def one(problem: Problem, state: Any) -> tuple[Any, Array, Array]:
    state, probe = attack.step(ImageLogits(classifier, problem.key), problem, state)
    bad_box = ~jnp.all((probe.image >= 0) & (probe.image <= 1))
    return state, bad_box, norms.distance(norm, probe.image - problem.image)

  step = jax.jit(jax.vmap(one))
  states = jax.jit(jax.vmap(attack.init))(problems)
  for _ in range(min(attack.num_steps, 12)):
    states, bad_box, distance = step(problems, states)
    _claim(not bad_box.any(), "every point looked at is finite and in [0, 1]")
    _claim(inside(np.asarray(distance), bound).all(), "every point looked at is in the ball")


def check_targeted(run: Callable[..., AttackResult], eps: float) -> None:
  """With targets, success means the target class."""
  classifier = fixture()
  images, labels = examples(classifier, 8)
  targets = (labels + 1) % CLASSES
  result = run(classifier, images, labels, eps=3 * eps, targets=targets)
  predicted = np.asarray(classifier(jnp.asarray(result.images))).argmax(1)
  _claim(np.array_equal(predicted == targets, result.success), "targeted success means the target class")
