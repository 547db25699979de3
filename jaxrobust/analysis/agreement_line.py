"""Accuracy under a shift without its labels: agreement on the line.

Where accuracies with and without a shift lie on a line, so do the agreements of pairs of models, and on the same line
(Baek et al. 2022, arXiv:2206.13089). Agreement needs no labels, so the line can be fitted to unlabeled images and read
at each model's ID accuracy. For robustness the predictions are those on each model's own adversarial images; the engine
keeps the first image that succeeds where other code returns the last one, which agreement feels and accuracy does not.

Numbers are fractions, so `top` of every line is 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jaxrobust.analysis.lines import Line, fit_line, inverse_probit, to_scale
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name
from jaxrobust.results import Result

METHODS = ("aline-s", "aline-d")
# A rule of thumb: where agreement scatters more, accuracy is off its own line too, and nothing is left to read from.
LEAST_R2 = 0.95


def pairs(models: int) -> np.ndarray:
  """Lists every pair of models once.

  >>> pairs(3).tolist()
  [[0, 1], [0, 2], [1, 2]]
  """
  return np.array(list(itertools.combinations(range(models), 2)), int).reshape(-1, 2)


def pairwise_agreement(predictions: np.ndarray) -> np.ndarray:
  """Measures how often each two models predict the same class.

  Args:
    predictions: classes, (models, examples); a prediction below 0 is none and agrees with nothing.

  Returns:
    One fraction per pair, in the order of `pairs`.

  >>> pairwise_agreement(np.array([[0, 1, 2], [0, 1, 1], [2, 1, 1]])).round(3).tolist()
  [0.667, 0.333, 0.667]
  """
  predictions = np.asarray(predictions)
  if predictions.ndim != 2 or 0 in predictions.shape:
    raise InputError(f"agreement needs predictions of shape (models, examples), got {predictions.shape}")
  return np.array(
    [np.mean((predictions[i] == predictions[j]) & (predictions[i] >= 0)) for i, j in pairs(len(predictions))]
  )


@dataclass(frozen=True, eq=False)
class AccuracyEstimate:
  """Accuracies under a shift that no label was used for.

  Attributes:
    accuracy: one fraction per model.
    line: through the agreements of pairs.
    method: `aline-s` or `aline-d`.
    warning: why the numbers should not be trusted; empty where nothing speaks against them.
  """

  accuracy: np.ndarray
  line: Line
  method: str
  warning: str = ""


def estimate_accuracy(
  id_accuracy: np.ndarray,
  id_predictions: np.ndarray,
  ood_predictions: np.ndarray,
  method: str = "aline-s",
  scale: str = "probit",
  least_r2: float = LEAST_R2,
) -> AccuracyEstimate:
  """Estimates accuracies under a shift from predictions without labels.

  ALine-S reads the line through agreements, agr_ood = a agr_id + b, at each ID accuracy. ALine-D solves, over all pairs
  of models and by least squares, ½ (wᵢ + wⱼ) = Φ⁻¹(agr_ood) + a (½ (Φ⁻¹ accᵢ + Φ⁻¹ accⱼ) - Φ⁻¹(agr_id)) for w, the
  probits of the accuracies sought; it needs at least three models and pays where they differ much from the line.

  Args:
    id_accuracy: fraction of each model, with labels.
    id_predictions: classes on images without the shift, (models, examples).
    ood_predictions: classes on images with it, (models, other examples).
    method: `aline-s` or `aline-d`.
    scale: `probit`, as the paper does, or `raw`.
    least_r2: an agreement line that explains less gets a warning.

  Returns:
    The estimate, with the line and a warning where agreement does not fit.

  Source: Baek et al. 2022, arXiv:2206.13089, algorithm 1.

  >>> predictions = np.array([[0, 1, 2, 3, 4], [0, 1, 2, 3, 0], [0, 1, 2, 0, 1], [1, 1, 2, 0, 4]])
  >>> found = estimate_accuracy([0.9, 0.7, 0.6, 0.5], predictions, predictions)  # no shift at all
  >>> found.accuracy.round(6).tolist(), found.warning
  ([0.9, 0.7, 0.6, 0.5], '')
  """
  id_accuracy = np.asarray(id_accuracy, np.float64)
  if method not in METHODS:
    raise unknown_name("method", method, list(METHODS))
  if not len(id_accuracy) == len(id_predictions) == len(ood_predictions):
    counts = f"{len(id_accuracy)}, {len(id_predictions)} and {len(ood_predictions)}"
    raise InputError(f"agreement on the line needs accuracies and both predictions of the same models, got {counts}")
  here, there = pairwise_agreement(id_predictions), pairwise_agreement(ood_predictions)
  line = fit_line(here, there, scale, 1.0, ("ID agreement", "OOD agreement"))
  if method == "aline-s":
    accuracy = np.clip(line.predict(id_accuracy), 0.0, 1.0)
  else:
    accuracy = _solve_pairs(id_accuracy, here, there, line)
  return AccuracyEstimate(accuracy, line, method, _warning(line, least_r2))


def _solve_pairs(id_accuracy: np.ndarray, here: np.ndarray, there: np.ndarray, line: Line) -> np.ndarray:
  """Solves ALine-D's equations, on the scale of the line."""
  who = pairs(len(id_accuracy))
  matrix = np.zeros((len(who), len(id_accuracy)))
  matrix[np.arange(len(who))[:, None], who] = 0.5
  scaled = lambda values: to_scale(values, line.scale, 1.0)
  right = scaled(there) + line.slope * (scaled(id_accuracy)[who].mean(1) - scaled(here))
  found = np.linalg.lstsq(matrix, right, rcond=None)[0]
  return inverse_probit(found, 1.0) if line.scale == "probit" else np.clip(found, 0.0, 1.0)


def _warning(line: Line, least: float) -> str:
  if line.r2 < least:
    return f"agreement is not on a line (R² {line.r2:.2f}, below {least:g}): do not trust these accuracies"
  if line.slope <= 0:
    return f"agreement falls as ID agreement rises (slope {line.slope:.2f}): do not trust these accuracies"
  return ""


def cells_estimate(
  id_cells: Sequence[Result], ood_cells: Sequence[Result], method: str = "aline-s", scale: str = "probit"
) -> AccuracyEstimate:
  """Estimates what cells on shifted data would say, from their predictions alone.

  Cells without an attack give accuracies, cells with one robustness: the predictions are those on the attacked images.

  Args:
    id_cells: one per model, over the same examples.
    ood_cells: of the same models in the same order; their labels are not looked at.
    method: as for `estimate_accuracy`.
    scale: as for `estimate_accuracy`.

  Returns:
    The estimate, one accuracy or robustness per model.

  Source: Baek et al. 2022, arXiv:2206.13089; for robustness OODRobustBench, section 4.3, arXiv:2310.12793.
  """
  for one, other in zip(id_cells, ood_cells, strict=True):
    if one.cell.model != other.cell.model:
      raise InputError(f"cells of the same models are needed in the same order, got {one.cell} beside {other.cell}")
  accuracy = np.array([result.examples["robust"].mean() for result in id_cells])
  return estimate_accuracy(accuracy, stack_predictions(id_cells), stack_predictions(ood_cells), method, scale)


def stack_predictions(cells: Sequence[Result]) -> np.ndarray:
  """Puts the predictions of cells over the same examples into one array, (models, examples); refuses others by name."""
  for result in cells:
    if "prediction" not in result.examples:
      raise InputError(f"{result.cell} was computed without predictions; compute it again")
    if result.config.get("data_fingerprint") != cells[0].config.get("data_fingerprint"):
      raise InputError(f"{result.cell} and {cells[0].cell} are about different data")
    if result.cell.n != cells[0].cell.n:
      raise InputError(f"{result.cell} and {cells[0].cell} are about different numbers of examples")
  return np.stack([result.examples["prediction"] for result in cells])
