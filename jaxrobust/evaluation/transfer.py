"""Transfer attacks: adversarial images made against one network, shown to others (source × target).

Images are made once per source, with all steps of the attack: a search that stops at the first success ends just behind
the source's boundary and hardly transfers. Attacks with a last point (`fgsm bim pgd mim apgd…`) are run to their end on
every example, right or wrong; of other attacks and cascades the verified adversarial images are taken as they are.
Each image is checked against its ball and the box before any target sees it.

A transfer cell belongs to the target: model = target, attack = `transfer:SOURCE:linf-pgd-20`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks import norms
from jaxrobust.attacks.schedule import Stage
from jaxrobust.core.classifier import Classifier, check_logits
from jaxrobust.core.errors import InputError, VerificationError
from jaxrobust.core.gradients import ImageLogits
from jaxrobust.core.keys import item_key_data
from jaxrobust.core.threat import inside, slack
from jaxrobust.core.types import Array, Attack, Problem
from jaxrobust.data.source import DataSource
from jaxrobust.engine.api import attack_images
from jaxrobust.engine.verdict import Verdict
from jaxrobust.evaluation.job import Job, RunOptions, make_job
from jaxrobust.evaluation.runner import find_stored, make_result
from jaxrobust.evaluation.shared import Shared
from jaxrobust.evaluation.suites import Entry
from jaxrobust.evaluation.verdicts import VerdictBook
from jaxrobust.results import Result, save_result

_ROWS = 64


@dataclass(frozen=True)
class TransferJob:
  """The images of one source on one target."""

  source: str
  job: Job


def transfer_jobs(
  models: Mapping[str, Shared], data: DataSource, entry: Entry, root: str | Path, options: RunOptions
) -> dict[str, list[TransferJob]]:
  """For every source, the cells of all targets; a source is a target of its own too."""
  if entry.schedule.minimal:
    raise InputError(f"{entry.attack} looks for the smallest perturbation: transfer needs an attack within a budget")
  if entry.eps is None:
    raise InputError("transfer needs an attack within a budget: set eps, for example 8/255")
  found: dict[str, list[TransferJob]] = {}
  for source, made_on in models.items():
    moved = replace(entry, attack=f"transfer:{source}:{entry.attack}")
    for target, shared in models.items():
      job = make_job(shared, target, data, moved, root, options)
      config = {**job.config, "transfer": {"source": source, "source_fingerprint": made_on.fingerprint}}
      found.setdefault(source, []).append(TransferJob(source, replace(job, config=config)))
  return found


def run_transfer(
  models: Mapping[str, Shared], data: DataSource, entry: Entry, root: str | Path, options: RunOptions
) -> dict[tuple[str, str], Result]:
  """All cells of source × target; images are made only for sources of which a cell is missing."""
  results: dict[tuple[str, str], Result] = {}
  jobs_of = transfer_jobs(models, data, entry, root, options)
  stored = {(source, each.job.cell.model): find_stored(each.job) for source, jobs in jobs_of.items() for each in jobs}
  if any(result is None for result in stored.values()):
    image_shape = tuple(data.take(np.zeros(1, int))[0].shape[1:])
    for shared in models.values():
      check_logits(shared.classifier, image_shape)
  with jax.default_matmul_precision(options.precision):
    for source, jobs in jobs_of.items():
      adversarial = None
      for each in jobs:
        target = each.job.cell.model
        result = stored[source, target]
        if result is None:
          if adversarial is None:
            adversarial = craft(models[source].classifier, data, entry, options)
          result = judge_transfer(each.job, adversarial)
          save_result(each.job.root, result)
        results[source, target] = result
  return results


def craft(classifier: Classifier, data: DataSource, entry: Entry, options: RunOptions) -> np.ndarray:
  """Adversarial images for every example of the data, verified to lie in their ball and in [0, 1]."""
  assert entry.eps is not None
  eps, ids = entry.eps.value, np.arange(len(data))
  stages = entry.schedule.stages
  single = len(stages) == 1 and hasattr(stages[0].attack, "last") and stages[0].rank is None
  made = np.empty((len(data), *data.take(ids[:1])[0].shape[1:]), np.float32)
  for start in range(0, len(data), _ROWS):
    rows = ids[start : start + _ROWS]
    images, labels = data.take(rows)
    if single:
      made[rows] = _all_steps(classifier, stages[0], images, labels, eps, rows, options)
    else:
      found = attack_images(
        entry.schedule,
        classifier,
        images,
        labels,
        entry.eps,
        seed=options.seed,
        samples=options.samples,
        options=options.engine,
        ids=rows,
        precision=options.precision,
      )
      made[rows] = found.images
    _check(images, made[rows], rows, getattr(stages[0].attack, "norm", "linf"), eps, entry.attack)
  return made


def _all_steps(
  classifier: Classifier,
  stage: Stage,
  images: np.ndarray,
  labels: np.ndarray,
  eps: float,
  ids: np.ndarray,
  options: RunOptions,
) -> np.ndarray:
  # One batch size for all, so that an image does not depend on how many there are.
  rows = np.minimum(np.arange(_ROWS), len(ids) - 1)
  words = np.stack([item_key_data(options.seed, int(example), stage.number, stage.restart) for example in ids])[rows]
  problems = Problem(
    jnp.asarray(images[rows]),
    jnp.asarray(labels[rows], jnp.int32),
    jnp.full(_ROWS, -1, jnp.int32),
    jnp.full(_ROWS, eps, jnp.float32),
    jax.random.wrap_key_data(jnp.asarray(words)),
  )
  states = _start(stage.attack, problems)
  for _ in range(stage.attack.num_steps):
    states = _step(stage.attack, options.samples if classifier.randomised else 1, classifier, problems, states)
  return np.asarray(_last(stage.attack, problems, states))[: len(ids)]


@functools.partial(jax.jit, static_argnums=0)
def _start(attack: Attack, problems: Problem) -> Any:
  return jax.vmap(attack.init)(problems)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _step(attack: Attack, samples: int, classifier: Classifier, problems: Problem, states: Any) -> Any:
  one = lambda problem, state: attack.step(ImageLogits(classifier, problem.key, samples), problem, state)[0]
  return jax.vmap(one)(problems, states)


@functools.partial(jax.jit, static_argnums=0)
def _last(attack: Attack, problems: Problem, states: Any) -> Array:
  return jax.vmap(attack.last)(problems, states)  # type: ignore[attr-defined]


def _check(clean: np.ndarray, images: np.ndarray, ids: np.ndarray, norm: str, eps: float, attack: str) -> None:
  distance = np.asarray(jax.vmap(functools.partial(norms.distance, norm))(jnp.asarray(images - clean)))
  good = np.isfinite(images).all((1, 2, 3)) & (images >= 0).all((1, 2, 3)) & (images <= 1).all((1, 2, 3))
  good &= inside(distance, eps, slack(norm, clean[0].size))
  if not good.all():
    row = int(np.argmin(good))
    raise VerificationError(f"{attack} left its threat model for example {int(ids[row])}: distance {distance[row]:.7g}")


def judge_transfer(job: Job, adversarial: np.ndarray) -> Result:
  """The target's verdict on images made elsewhere: right on the clean image, and still right on the other."""
  assert job.entry.eps is not None
  book = VerdictBook(job.cell.n, False, job.entry.eps.value, job.classes)
  for start in range(0, job.cell.n, _ROWS):
    ids = np.arange(start, min(start + _ROWS, job.cell.n))
    images, labels = job.data.take(ids)
    before, after = (_logits(job, batch, ids) for batch in (images, adversarial[ids]))
    book.record(_verdicts(ids, labels, before, after, adversarial[ids]))
  return make_result(job, book, np.arange(job.cell.n))


def _verdicts(
  ids: np.ndarray, labels: np.ndarray, before: np.ndarray, after: np.ndarray, images: np.ndarray
) -> Sequence[Verdict]:
  found = []
  for row, (example, label) in enumerate(zip(ids, labels, strict=True)):
    finite = [bool(np.isfinite(logits[row]).all()) for logits in (before, after)]
    correct = finite[0] and int(before[row].argmax()) == label
    broken = not correct or not finite[1] or int(after[row].argmax()) != label
    found.append(
      Verdict(
        int(example),
        int(example),
        correct,
        broken,
        0.0 if broken else float("inf"),
        images[row],
        *(-1, 1, 0, 2 - sum(finite), 0, 0, False),
        label=int(label),
        clean_prediction=int(before[row].argmax()) if finite[0] else -1,
        broken_at=-1,
        logits=after[row],
      )
    )
  return found


def _logits(job: Job, images: np.ndarray, ids: np.ndarray) -> np.ndarray:
  rows = np.minimum(np.arange(_ROWS), len(ids) - 1)
  words = np.stack([item_key_data(job.options.seed, int(example), 0, 0) for example in ids])[rows]
  samples = job.options.samples if job.classifier.randomised else 1
  return np.asarray(_forward(samples, job.classifier, images[rows], words))[: len(ids)]


@functools.partial(jax.jit, static_argnums=0)
def _forward(samples: int, classifier: Classifier, images: Array, words: Array) -> Array:
  one = lambda image, word: ImageLogits(classifier, jax.random.wrap_key_data(word), samples)(image)
  return jax.vmap(one)(images, words)
