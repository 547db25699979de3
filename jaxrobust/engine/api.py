"""`attack_images`: the plain call for library users."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrobust.attacks.cascade_rule import CascadeRule
from jaxrobust.attacks.losses import check_loss
from jaxrobust.attacks.schedule import Cascade, Schedule, as_schedule, is_schedule, loss_name
from jaxrobust.core.budget import Budget
from jaxrobust.core.classifier import Classifier, check_logits
from jaxrobust.core.compilation import kept_programs
from jaxrobust.core.contract import contract_of
from jaxrobust.core.display import html_table
from jaxrobust.core.errors import InputError
from jaxrobust.core.keys import check_seed
from jaxrobust.core.modules import refuse_torch
from jaxrobust.core.proportions import Proportion, proportion
from jaxrobust.core.types import Attack
from jaxrobust.core.validation import check_images, check_targets, check_whole
from jaxrobust.engine.example import EngineStats, Examples, Source
from jaxrobust.engine.options import EngineOptions, check_precision, check_samples
from jaxrobust.engine.scheduler import SAMPLES, Engine
from jaxrobust.engine.verdicts import VerdictArrays


class AttackResult(NamedTuple):
  """Per example, verified outside the attack.

  Attributes:
    images: adversarial where `success`, the original elsewhere; float32.
    success: includes examples that were misclassified before the attack; see `correct`.
    distance: norm of the smallest perturbation found; 0 where already misclassified, infinity where none was found.
      That of a minimal attack may lie beyond `eps`, and is then no success.
    queries: forward passes the attack spent.
    correct: classified as labeled before the attack.
    nan: points where logits or gradients were not finite; such an example is never `robust`.
    robust: correct, not broken, and no non-finite numbers on the way.
    stats: totals of the run.
    reached_step, reached_query: (N, budgets), when a success within each was first seen; -1 for never.
    flat: points without success where the gradient was exactly zero.
  """

  images: np.ndarray
  success: np.ndarray
  distance: np.ndarray
  queries: np.ndarray
  correct: np.ndarray
  nan: np.ndarray
  robust: np.ndarray
  stats: EngineStats
  reached_step: np.ndarray
  reached_query: np.ndarray
  flat: np.ndarray

  def __repr__(self) -> str:
    """Returns one line: how many images, and what is left of the accuracy."""
    shares = "".join(f", {name} {share} %" for name, share in self._shares().items())
    return f"AttackResult({len(self.images)} images{shares}, {int(self.queries.sum()):,} queries)"

  def _repr_html_(self) -> str:
    rows = [(name, *share.texts()) for name, share in self._shares().items()]
    queries = f"{int(self.queries.sum()):,} queries"
    return html_table(f"AttackResult of {len(self.images)} images, {queries}", ("", "share", "95 % interval"), rows)

  def _shares(self) -> dict[str, Proportion]:
    flags = {"clean": self.correct, "robust": self.robust}
    return {name: proportion(array) for name, array in flags.items() if len(array)}


class ExampleArrays(NamedTuple):
  """Arrays in memory as a source; ids are positions unless given."""

  ids: np.ndarray
  images: np.ndarray
  labels: np.ndarray
  targets: np.ndarray

  @property
  def image_shape(self) -> tuple[int, int, int]:
    return tuple(self.images.shape[1:])

  def __len__(self) -> int:
    return self.images.shape[0]

  def take(self, positions: np.ndarray) -> Examples:
    return Examples(self.ids[positions], self.images[positions], self.labels[positions], self.targets[positions])


def resolve_eps(schedule: Schedule, eps: str | float | Budget | None) -> float:
  """Returns the budget as a number; only minimal attacks may go without one, and then search without bound."""
  if eps is not None:
    return _as_number(schedule, eps)
  if not schedule.minimal:
    raise InputError("this attack works within a budget: pass eps, for example eps='8/255'")
  return float("inf")


def _as_number(schedule: Schedule, eps: str | float | Budget) -> float:
  threat = schedule.stages[0].attack.threat.name if schedule.stages else ""  # A clean pass has none.
  return Budget.parse(eps, threat).value


def search_eps(schedule: Schedule, eps: float | None) -> float:
  """Returns the budget that a run works within: a minimal attack searches without bound, and the budget only decides
  what counts; a budget of 0 leaves nothing to search."""
  return float("inf") if eps is None or (schedule.minimal and eps > 0) else eps


def fit_schedule(schedule: Schedule, num_classes: int, targeted: bool) -> Schedule:
  """Returns the schedule as this classifier can have it; raises InputError for losses that are undefined for it."""
  if isinstance(schedule, Cascade | CascadeRule):
    schedule = schedule.adapted(num_classes)
  if targeted and any(stage.rank is not None for stage in schedule.stages):
    raise InputError("this cascade chooses its own targets; it cannot be given any")
  for stage in schedule.stages:
    loss = loss_name(stage.attack)
    if loss is not None:
      check_loss(loss, num_classes, targeted or stage.rank is not None)
  return schedule


@kept_programs()
def attack_images(
  attack: Attack | Schedule,
  classifier: Classifier,
  images: np.ndarray,
  labels: np.ndarray,
  eps: str | float | Budget | None = None,
  *,
  targets: np.ndarray | None = None,
  seed: int = 0,
  restarts: int = 1,
  samples: int | None = None,
  verdict_samples: int = SAMPLES,
  batch_size: int | None = None,
  options: EngineOptions | None = None,
  ids: np.ndarray | None = None,
  precision: str = "highest",
  budgets: Sequence[str | float] = (),
  starts: tuple[np.ndarray, np.ndarray] | Source | None = None,
  progress: Callable[[EngineStats], None] | None = None,
) -> AttackResult:
  """Attacks images and returns verified results, the same for any batch size, order or device count.

  Args:
    attack: from `make_attack`, a cascade, or your own.
    classifier: what is attacked.
    images: (N, H, W, C) in [0, 1]; other floats are turned into float32 before anything else.
    labels: true classes.
    eps: the budget, such as "8/255"; minimal attacks may go without, and with one report success within it.
    targets: wanted classes; success then means reaching them.
    seed: all randomness follows from it and the ids.
    restarts: random restarts of a single attack.
    samples: of randomized classifiers, forward passes per query; 20 for attacks with gradients, 1 for others.
    verdict_samples: the same for the verdict on an image.
    batch_size: examples worked on at once.
    options: everything about how the machine is used; excludes batch_size.
    ids: names of the examples for their keys, integers; positions by default.
    precision: of matrix products and convolutions; float32 throughout by default, also on TPU.
    budgets: of minimal attacks, for which `reached_step` and `reached_query` of the result say when each was first met.
    starts: images and labels, or a source of examples, that attacks with `needs_start` or `needs_others` choose from;
      the attacked ones in the order of their ids otherwise. The first 500 are asked, and later ones of targets that
      are not among them. Which start an example gets depends on the seed and its class alone.
    progress: called with running totals.

  Example:
    >>> import jax.numpy as jnp
    >>> from jaxrobust.attacks.registry import make_attack
    >>> model = Classifier.from_function(lambda x: jnp.stack([x.mean((1, 2, 3)), x[:, 0, 0, 0]], 1), 2)
    >>> x = np.full((2, 4, 4, 1), 0.5, np.float32); x[:, 0, 0, 0] = 0.4
    >>> result = attack_images(make_attack("pgd", num_steps=5), model, x, np.zeros(2, int), eps=0.1)
    >>> result.success.tolist(), bool((abs(result.images - x) <= 0.1 + 1e-6).all())
    ([True, True], True)
    >>> result
    AttackResult(2 images, clean 100.0 [34.2, 100.0] %, robust 0.0 [0.0, 65.8] %, 6 queries)
  """
  check_attack(attack)
  check_classifier(classifier)
  check_samples(samples, verdict_samples)
  check_seed(seed)
  check_precision(precision)
  schedule = as_schedule(attack, restarts)
  budget = resolve_eps(schedule, eps)
  schedule = fit_schedule(schedule, classifier.num_classes, targets is not None)
  source = _checked_source(images, labels, targets, ids, classifier.num_classes)
  if options is None:
    options = EngineOptions.for_platform(batch_size)
  pool = _start_pool(source, starts, classifier.num_classes)
  adversarial, verdicts = np.array(source.images), VerdictArrays(len(source), budget, len(budgets))
  if len(source) == 0:
    return _result(adversarial, verdicts, EngineStats())
  check_logits(classifier, source.image_shape)
  with jax.default_matmul_precision(precision):
    engine = Engine(
      classifier,
      schedule,
      source,
      eps=search_eps(schedule, budget),
      seed=seed,
      targeted=targets is not None,
      samples=samples,
      verdict_samples=verdict_samples,
      options=options,
      budgets=[_as_number(schedule, one) for one in budgets],
      start_pool=pool,
      start_classes=None if targets is None else np.unique(source.targets).tolist(),
    )
    _drive(engine, adversarial, verdicts, budget, progress)
  return _result(adversarial, verdicts, engine.stats)


def _drive(
  engine: Engine,
  adversarial: np.ndarray,
  verdicts: VerdictArrays,
  budget: float,
  progress: Callable[[EngineStats], None] | None,
) -> None:
  """Turns the engine until nothing is left, and writes down what comes out."""
  going = True
  while going:
    going = engine.turn()
    batch = engine.collect()
    verdicts.record(batch)
    for row in np.flatnonzero(batch.broken(budget)).tolist():
      image = batch.images[row]
      if image is not None:
        adversarial[batch["position"][row]] = image[..., : adversarial.shape[-1]]
    if progress is not None:
      progress(engine.stats)


def _result(images: np.ndarray, verdicts: VerdictArrays, stats: EngineStats) -> AttackResult:
  others = (name for name in AttackResult._fields if name not in ("images", "stats"))
  return AttackResult(images=images, stats=stats, **{name: verdicts[name] for name in others})


def check_attack(attack: Any) -> None:
  """Raises InputError, in one line, for what is neither an attack nor a schedule."""
  if isinstance(attack, str):
    raise InputError(f"the attack {attack!r} is a name; pass make_attack({attack!r})")
  if isinstance(attack, type):
    raise InputError(f"the attack is the class {attack.__name__}; pass one of it: {attack.__name__}()")
  if not is_schedule(attack):
    if not any(hasattr(attack, part) for part in ("init", "step")):
      raise InputError(f"the attack is a {type(attack).__name__}; pass one of make_attack, or a cascade")
    contract_of(attack)


def check_classifier(classifier: Any) -> None:
  """Refuses, in one line, what is no `Classifier`."""
  if not isinstance(classifier, Classifier):
    refuse_torch(classifier)
    kind = type(classifier).__name__
    raise InputError(f"the classifier is a {kind}; wrap it with Classifier.from_function or Classifier.from_module")


def _checked_source(images: Any, labels: Any, targets: Any, ids: Any, num_classes: int) -> ExampleArrays:
  """Makes the arrays of a call a source. Images become float32, the type that adversarial images are verified in."""
  check_images(images, labels, num_classes)
  count = len(images)
  check_targets(targets, count, num_classes)
  if ids is not None:
    check_whole(ids, count, "ids")
  return ExampleArrays(
    np.arange(count) if ids is None else np.asarray(ids),
    np.asarray(images, np.float32),
    np.asarray(labels),
    np.full(count, -1) if targets is None else np.asarray(targets),
  )


def _start_pool(source: ExampleArrays, starts: Any, num_classes: int) -> Source:
  """Returns what starting points are chosen from, in an order of its own."""
  if starts is None:
    return ExampleArrays(*source.take(np.argsort(source.ids, kind="stable")))
  pool: Source
  if isinstance(starts, Source):
    pool = starts
  elif isinstance(starts, tuple) and len(starts) == 2:
    pool = _checked_source(*starts, None, None, num_classes)
  else:
    raise InputError("starts are a pair of images and labels")
  if not len(pool) or pool.image_shape != source.image_shape:
    raise InputError(f"starts are {len(pool)} images of shape {pool.image_shape}, attacked are {source.image_shape}")
  return pool
