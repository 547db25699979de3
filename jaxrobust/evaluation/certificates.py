"""Certificates of the examples of a job, before they are attacked, and what its cell says of them."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxrobust.attacks.minimum_budget import START
from jaxrobust.attacks.schedule import Schedule
from jaxrobust.certify.certifier import NORMS, Certifier
from jaxrobust.certify.first import CERTIFIED_STAGE, PILOT, BoundPilot, hidden_neurons, paying_bounds, proved_radii
from jaxrobust.core.budget import Budget
from jaxrobust.core.errors import InputError
from jaxrobust.data.judging import judging_of
from jaxrobust.data.source import DataSource
from jaxrobust.engine.workload import passes_to_the_end

if TYPE_CHECKING:
  from jaxrobust.evaluation.job import Job, ShareSource

# Examples that are read at once.
_CHUNK = 256


def certify_config(schedule: Schedule, method: str) -> dict[str, Any]:
  """Returns what a cell's configuration says of its certificates; refuses threats that have none.

  >>> from jaxrobust.attacks.registry import make_attack
  >>> from jaxrobust.attacks.schedule import as_schedule
  >>> certify_config(as_schedule(make_attack("pgd", num_steps=5)), "crown")
  {'method': 'crown', 'pilot': 16}
  """
  threat = schedule.stages[0].attack.threat.name
  if threat not in NORMS:
    raise InputError(f"there are no certificates against {threat}: certify against {' or '.join(NORMS)}")
  return {"method": method, "pilot": PILOT}


def proved_radii_of(job: Job, source: ShareSource) -> np.ndarray | None:
  """Returns what is proved of the examples of a job's source, by position; None where nothing is asked for.

  All zeros say that no bound pays. Jobs of one classifier share what they have in common.
  """
  if "certify" not in job.config or job.cell.n == 0:
    return None
  norm, eps = job.entry.schedule.stages[0].attack.threat.name, job.entry.eps
  minimal = job.entry.schedule.minimal
  budget = math.inf if minimal or eps is None else eps.value
  # Where there is no budget, or one of 0, a search begins as it would without.
  start = (0.0 if eps is None else eps.value) or START[norm]
  # What a search for budgets saves is not counted.
  passes = passes_to_the_end(job.entry.schedule)[0] if math.isfinite(budget) else math.inf
  pilot = _pilot(job, source.image_shape, norm)
  certifier = pilot.certifier.limited(paying_bounds(pilot, start, passes))
  key = job.config["data_fingerprint"], certifier.methods, norm, budget, start, source.positions.tobytes()
  known = job.context.certificates
  if key not in known:
    known[key] = _prove(source, certifier, budget, start)
  return known[key]


def _pilot(job: Job, shape: tuple[int, int, int], norm: str) -> BoundPilot:
  """Returns the first examples of a job's data, which all attacks on one classifier share."""
  method, known = job.config["certify"]["method"], job.context.pilots
  key = job.config["data_fingerprint"], shape, norm, method
  if key not in known:
    certifier = Certifier(job.classifier, shape, norm, method)
    examples, count = functools.partial(examples_of, job.data), min(PILOT, len(job.data))
    known[key] = BoundPilot(certifier, examples, count, hidden_neurons(job.classifier, shape))
  return known[key]


def _prove(source: ShareSource, certifier: Certifier, budget: float, start: float) -> np.ndarray:
  radii = np.zeros(len(source))
  if not certifier.methods:
    return radii
  for first in range(0, len(source), _CHUNK):
    rows = np.arange(first, min(first + _CHUNK, len(source)))
    radii[rows] = proved_radii(certifier, *examples_of(source.data, source.positions[rows]), budget, start)
  return radii


def examples_of(data: DataSource, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns images in [0, 1] and what they are judged by."""
  images, labels = data.take(ids)
  return images, judging_of(data).choice_of(labels)


def certified_arrays(arrays: dict[str, np.ndarray], radii: np.ndarray, eps: Budget | None) -> dict[str, np.ndarray]:
  """Returns what certificates add to the arrays of a cell: the radius, and the stage of what was not attacked.

  >>> arrays = {"stage": np.array([-1, 2]), "correct": np.array([True, True])}
  >>> found = certified_arrays(arrays, np.array([0.25, 0.0]), Budget("0.25"))
  >>> found["stage"].tolist(), found["certified_radius"].tolist()
  ([-2, 2], [0.25, 0.0])
  """
  closed = np.zeros(len(radii), bool)
  if eps is not None and "distance" not in arrays:
    closed = (radii >= eps.value) & (radii > 0)
  stage = np.where(closed & (arrays["stage"] < 0), CERTIFIED_STAGE, arrays["stage"]).astype(np.int32)
  return {"stage": stage, "certified_radius": radii.astype(np.float32)}
