"""Certificates of a whole data set as one cell: radii by bounds or by smoothing, no attack.

`correct` is what the classifier (smoothed, where it is) says of clean images, `robust` what is proved at the cell's
budget, `certified_radius` up to where. A cell of a smoothed classifier carries sigma in the name of its model, so that
it is never taken for one of the base classifier. Progress is saved every so often and when asked to stop, by example:
what is decided, and the votes of what is not. Noise belongs to examples and copies, so that a continued run ends with
the same file.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxrobust.certify.certifier import METHODS, Certifier
from jaxrobust.certify.first import CERTIFIED_STAGE
from jaxrobust.certify.smoothing import Smoothing
from jaxrobust.certify.vote_slots import Tally
from jaxrobust.core.budget import Budget
from jaxrobust.core.errors import InputError
from jaxrobust.core.progress import ProgressFn, silent
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.stopping import StopRequest
from jaxrobust.data.source import DataSource, condition_of
from jaxrobust.evaluation.certificates import examples_of
from jaxrobust.evaluation.certify_examples import Asking, ByBounds, ByVotes
from jaxrobust.evaluation.context import ModelContext
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.provenance import provenance
from jaxrobust.evaluation.verdicts import summarize
from jaxrobust.results import Cell, Result, find_result, load_partial, remove_partial, save_partial, save_result
from jaxrobust.results.ids import certificate_id

SMOOTHING, SEQUENTIAL = "smoothing", "smoothing-sequential"


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
  if smoothing is None and method not in METHODS:
    raise unknown_name("method", method, [*sorted(METHODS), SMOOTHING])
  if smoothing is None:
    shape = tuple(data.take(np.zeros(1, int))[0].shape[1:])
    asking: Asking = ByBounds(data, Certifier(context.classifier, shape, norm, method), norm, budget, search)
    name, about = certificate_id(norm, method), {"search": search}
  else:
    asking = ByVotes(data, smoothing, context.classifier, None if search else budget.value)
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
    examples = _run(asking, len(data), cell.path(root), config, options, progress)
  arrays = _cell_arrays(examples, data, budget.value)
  origin = provenance(options.precision) | ({"model": dict(context.about)} if context.about else {})
  result = Result(cell=cell, config=config, summary=_summary(arrays), examples=arrays, provenance=origin)
  save_result(root, result)
  remove_partial(cell.path(root))
  return result


def _run(
  asking: Asking, count: int, path: Path, config: dict[str, Any], options: RunOptions, progress: ProgressFn
) -> dict[str, np.ndarray]:
  """Certifies all examples, from saved progress if there is any."""
  arrays = {"decided": np.zeros(count, bool), "correct": np.zeros(count, bool), "radius": np.zeros(count)}
  tallies = _take_up(arrays, load_partial(path, config))
  saved = time.monotonic()
  with StopRequest() as stop:
    for decided in asking.run(np.flatnonzero(~arrays["decided"]), tallies):
      for example, (right, radius) in decided:
        arrays["decided"][example], arrays["correct"][example], arrays["radius"][example] = True, right, radius
      done = int(arrays["decided"].sum())
      if decided:
        progress(done / count)
      if done < count and (stop.asked or time.monotonic() - saved > options.save_seconds):
        tallies |= asking.tallies()
        votes = {example: tally for example, tally in tallies.items() if not arrays["decided"][example]}
        save_partial(path, config, arrays | _tally_arrays(votes), {})
        saved = time.monotonic()
        if stop.asked:
          raise stop.error(f"after {done} of {count} examples")
  return arrays


def _take_up(arrays: dict[str, np.ndarray], saved: tuple[dict[str, np.ndarray], Any] | None) -> dict[int, Tally]:
  """Copies saved progress of this form into `arrays`; returns the votes of what is not decided."""
  found = {} if saved is None else saved[0]
  if found.keys() != arrays.keys() | _tally_arrays({}).keys():
    return {}  # None, or of an earlier form.
  if any(found[name].shape != array.shape for name, array in arrays.items()):
    return {}
  arrays.update((name, found[name]) for name in arrays)
  rows = zip(found["counted"].tolist(), found["votes"], found["samples"], strict=True)
  return {example: Tally(votes, samples) for example, votes, samples in rows}


def _tally_arrays(tallies: dict[int, Tally]) -> dict[str, np.ndarray]:
  return {
    "counted": np.array(list(tallies), np.int64),
    "votes": np.array([tally.votes for tally in tallies.values()], np.int64),
    "samples": np.array([tally.samples for tally in tallies.values()], np.int64),
  }


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
