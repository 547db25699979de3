"""Certificates of a whole data set as one cell: radii by bounds or by smoothing, no attack.

`correct` is what the classifier (smoothed, where it is) says of clean images, `robust` what is proved at the cell's
budget, `certified_radius` up to where. A cell of a smoothed classifier carries sigma in the name of its model, so that
it is never taken for one of the base classifier. Progress is saved every so often and when asked to stop; noise belongs
to examples and copies, so that a continued run ends with the same file.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxrobust.attacks.minimum_budget import START
from jaxrobust.certify.certifier import Certifier, certified_radii
from jaxrobust.certify.first import CERTIFIED_STAGE
from jaxrobust.certify.smoothing import Smoothing
from jaxrobust.core.budget import Budget
from jaxrobust.core.errors import InputError
from jaxrobust.core.progress import ProgressFn, silent
from jaxrobust.core.stopping import StopRequest
from jaxrobust.data.source import DataSource
from jaxrobust.evaluation.certificates import examples_of
from jaxrobust.evaluation.context import ModelContext, condition_of
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.provenance import provenance
from jaxrobust.evaluation.verdicts import summarize
from jaxrobust.results import Cell, Result, find_result, load_partial, remove_partial, save_partial, save_result
from jaxrobust.results.ids import certificate_id

SMOOTHING, SEQUENTIAL = "smoothing", "smoothing-sequential"
# Examples between two looks at the clock, by bounds; by votes, which take seconds, each has one.
_CHUNK = 32

Ask = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""(ids, images, labels) -> which are right, and their radii."""


def certify_data(
  context: ModelContext, model: str, data: DataSource, eps: str | Budget, root: str | Path,
  options: RunOptions, *, norm: str = "linf", method: str = "crown", search: bool = True,
  smoothing: Smoothing | None = None, progress: ProgressFn = silent,
) -> Result:  # fmt: skip
  """Returns the certificates of a data set, from disk if they are there.

  Args:
    context: of the classifier. model: its name.
    data: what is certified.
    eps: the budget that `robust` is about.
    root: the results folder.
    options: seed, precision and how often progress is saved.
    norm, method: which bounds; smoothing is l2.
    search: whether radii are searched for; eps and nothing else is tried otherwise, which by smoothing takes as few
      copies as it takes to tell.
    smoothing: where the method is smoothing.
  """
  budget = Budget.parse(eps, "l2" if smoothing else norm)
  if budget.value <= 0:
    raise InputError("a certificate needs a budget above 0: pass eps, for example eps='2/255'")
  shape = tuple(data.take(np.zeros(1, int))[0].shape[1:])
  if smoothing is None:
    ask = _by_bounds(Certifier(context.classifier, shape, norm, method), norm, budget, search)
    name, about = certificate_id(norm, method), {"search": search}
  else:
    ask = _by_votes(context, smoothing) if search else _by_sequences(context, smoothing, budget.value)
    name = certificate_id("l2", SMOOTHING if search else SEQUENTIAL)
    about = {key: getattr(smoothing, key) for key in ("sigma", "n0", "n", "alpha")}
    model += smoothing.suffix
  cell = Cell(
    model=model,
    data=data.name,
    condition=condition_of(data),
    attack=name,
    eps=budget.text,
    n=len(data),
    seed=options.seed,
  )
  config: dict[str, Any] = {
    "attack": [{"certificate": method, **about}],
    "threat": {"name": "l2" if smoothing else norm},
    "model_fingerprint": context.fingerprint,
    "data_fingerprint": data.fingerprint(),
    "precision": options.precision,
    "samples": 1,
  }
  stored = find_result(root, cell, config)
  if stored is not None:
    return stored
  with jax.default_matmul_precision(options.precision):
    chunk = _CHUNK if smoothing is None else 1
    examples = _run(ask, data, cell.path(root), config, options, progress, chunk)
  arrays = _cell_arrays(examples, data, budget.value)
  origin = provenance(options.precision) | ({"model": dict(context.about)} if context.about else {})
  result = Result(cell=cell, config=config, summary=_summary(arrays), examples=arrays, provenance=origin)
  save_result(root, result)
  remove_partial(cell.path(root))
  return result


def _by_bounds(certifier: Certifier, norm: str, budget: Budget, search: bool) -> Ask:
  def ask(ids: np.ndarray, images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    found = certifier(images, labels, np.full(len(labels), budget.value))
    radii = np.where(found.certified, budget.value, 0.0)
    if search:
      radii = np.maximum(
        radii, np.nan_to_num(certified_radii(certifier, images, labels, min(budget.value, START[norm])))
      )
    return found.correct, radii

  return ask


def _by_votes(context: ModelContext, smoothing: Smoothing) -> Ask:
  def ask(ids: np.ndarray, images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    found = [smoothing.certify(context.classifier, image, int(one)) for one, image in zip(ids, images, strict=True)]
    right = np.array([one.prediction for one in found]) == labels
    return right, np.where(right, [one.radius for one in found], 0.0)

  return ask


def _by_sequences(context: ModelContext, smoothing: Smoothing, eps: float) -> Ask:
  """Asks whether each label is certain within eps; what is right beyond that is a guess by `n0` copies."""

  def ask(ids: np.ndarray, images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    right, radii = np.zeros(len(ids), bool), np.zeros(len(ids))
    for row, (one, image, label) in enumerate(zip(ids.tolist(), images, labels.tolist(), strict=True)):
      radii[row] = smoothing.decide(context.classifier, image, label, one, eps).radius
      right[row] = radii[row] > 0 or smoothing.choose(context.classifier, image, one) == label
    return right, radii

  return ask


def _run(
  ask: Ask, data: DataSource, path: Path, config: dict[str, Any], options: RunOptions, progress: ProgressFn, chunk: int
) -> dict[str, np.ndarray]:
  """Asks about all examples, from saved progress if there is any."""
  arrays = {"correct": np.zeros(len(data), bool), "radius": np.zeros(len(data))}
  done, saved = 0, time.monotonic()
  found = load_partial(path, config)
  if found is not None and all(found[0][name].shape == array.shape for name, array in arrays.items()):
    arrays, done = found[0], int(found[1]["done"])
  with StopRequest() as stop:
    for first in range(done, len(data), chunk):
      ids = np.arange(first, min(first + chunk, len(data)))
      arrays["correct"][ids], arrays["radius"][ids] = ask(ids, *examples_of(data, ids))
      done = int(ids[-1]) + 1
      progress(done / len(data))
      if done < len(data) and (stop.asked or time.monotonic() - saved > options.save_seconds):
        save_partial(path, config, arrays, {"done": done})
        saved = time.monotonic()
        if stop.asked:
          raise stop.error(f"after {done} of {len(data)} examples")
  return arrays


def _cell_arrays(found: dict[str, np.ndarray], data: DataSource, eps: float) -> dict[str, np.ndarray]:
  count = len(data)
  robust = found["correct"] & (found["radius"] >= eps)
  labels = np.concatenate([examples_of(data, np.arange(at, min(at + 1024, count)))[1] for at in range(0, count, 1024)])
  return {
    "correct": found["correct"],
    "robust": robust,
    **{name: np.zeros(count, bool) for name in ("nan", "disagree", "softmax")},
    "label": labels.astype(np.int32),
    "stage": np.where(robust, CERTIFIED_STAGE, -1).astype(np.int32),
    "queries": np.zeros(count, np.int32),
    "certified_radius": found["radius"].astype(np.float32),
  }


def _summary(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
  radii = arrays["certified_radius"][arrays["correct"]]
  return {**summarize(arrays), "median_certified_radius": float(np.median(radii)) if len(radii) else None}
