"""How well a zoo's performance under shifts could have been told without labels: four estimators beside the truth.

Every shift of the data (corruptions, natural ones) is taken condition by condition. For accuracy the cells without an
attack are used, for robustness those of the attack that stands for ID robustness. Threat shifts are left out: another
attack makes other images, and agreement on the line is about the same question asked elsewhere.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from jaxrobust.analysis.agreement_line import METHODS, estimate_accuracy, stack_predictions
from jaxrobust.analysis.confidence_estimates import ESTIMATORS, cells_confidence_estimate
from jaxrobust.analysis.lines import FEWEST, SCALES
from jaxrobust.analysis.zoo import ACCURACY, ROBUSTNESS
from jaxrobust.analysis.zoo_places import Measured, choose_cells, place_cells
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name
from jaxrobust.results import Result

# "OOD = ID", which needs nothing, and what beats it or not.
NAIVE = "id"
ESTIMATES = (NAIVE, *METHODS, *ESTIMATORS)
_SHIFTS = ("R_c", "R_n", "more")


class ShiftEstimate(NamedTuple):
  """Says how far estimates without labels are from the truth under one shift.

  Attributes:
    kind: `accuracy` or `robustness`.
    shift: a corruption (all its severities) or a data set.
    conditions: how many there are of it.
    models: with cells of all of them.
    errors: mean absolute error over models and conditions in points, by the names of `ESTIMATES`; ALine's over those
      where agreements have a line.
    r2: the smallest R² of these lines; NaN where there is none.
    warned: conditions in which agreement does not fit, so that ALine's numbers are not to be trusted.
  """

  kind: str
  shift: str
  conditions: int
  models: int
  errors: Mapping[str, float]
  r2: float
  warned: int


def estimate_zoo(
  results: Iterable[Result], data: str = "", attack: str = "", scale: str = "probit"
) -> list[ShiftEstimate]:
  """Estimates every model's performance under every shift of the data without labels, and compares with the labels.

  Args:
    results: cells with predictions and confidences.
    data: as for `zoo_cells.read_cells`.
    attack: as for `zoo_cells.read_cells`.
    scale: of the lines through agreements, `probit` as in their paper, or `raw`.

  Returns:
    One entry per kind and shift, in the order of their names.

  Raises:
    InputError: no shift has cells with predictions of at least three models.

  Source: ALine: Baek et al. 2022, arXiv:2206.13089; ATC: Garg et al. 2022, arXiv:2201.04234; DoC: Guillory et al. 2021,
  arXiv:2107.03315.
  """
  if scale not in SCALES:
    raise unknown_name("scale", scale, list(SCALES))
  placed, _ = place_cells(*choose_cells(results, data, attack))
  found = []
  for kind in (ACCURACY, ROBUSTNESS):
    here = _with_rows(next((cells for place, cells in placed.items() if (place.group, place.kind) == ("id", kind)), {}))
    shifts: dict[str, list[Measured]] = {}
    for place in placed:
      if place.group in _SHIFTS and place.kind == kind:
        shifts.setdefault(place.shift, []).append(place)
    for shift, places in sorted(shifts.items()):
      there = [_with_rows(placed[place]) for place in places]
      models = sorted(set(here).intersection(*there))
      if len(models) >= FEWEST:
        found.append(_compare(kind, shift, [here[m] for m in models], [[c[m] for m in models] for c in there], scale))
  if not found:
    raise InputError(
      f"no shift has cells with predictions and confidences of {FEWEST} models: nothing to estimate from"
    )
  return found


def _with_rows(cells: Mapping[str, Result]) -> dict[str, Result]:
  """Keeps the cells that hold predictions and confidences: imported ones have none."""
  wanted = {"robust", "prediction", "confidence"}
  return {model: result for model, result in cells.items() if wanted <= set(result.examples)}


def _compare(kind: str, shift: str, here: list[Result], there: list[list[Result]], scale: str) -> ShiftEstimate:
  errors: dict[str, list[float]] = {name: [] for name in ESTIMATES}
  share = lambda cells: np.array([result.examples["robust"].mean() for result in cells])
  fits: list[float] = []
  warned = 0
  for cells in there:
    predictions, lines = (stack_predictions(here), stack_predictions(cells)), {}
    # Agreements that are all alike have no line.
    with contextlib.suppress(InputError):
      lines = {method: estimate_accuracy(share(here), *predictions, method, scale) for method in METHODS}
    guesses = {NAIVE: share(here), **{method: found.accuracy for method, found in lines.items()}}
    for method in ESTIMATORS:
      both = zip(here, cells, strict=True)
      guesses[method] = np.array([cells_confidence_estimate(one, other, method) for one, other in both])
    for name, guess in guesses.items():
      errors[name].append(100 * float(np.abs(guess - share(cells)).mean()))
    fits += [found.line.r2 for found in lines.values()]
    warned += not lines or any(found.warning for found in lines.values())
  means = {name: float(np.mean(values)) if values else float("nan") for name, values in errors.items()}
  return ShiftEstimate(kind, shift, len(there), len(here), means, min(fits, default=float("nan")), warned)
