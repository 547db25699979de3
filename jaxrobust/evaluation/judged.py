"""Verdicts as a data set's protocol counts them: by class numbers, right wherever a right class is said."""

from __future__ import annotations

import numpy as np

from jaxrobust.data.judging import Judging

Arrays = dict[str, np.ndarray]
_CLASSES = ("label", "clean_prediction", "prediction")


def judged(judging: Judging, arrays: Arrays, positions: np.ndarray) -> Arrays:
  """Returns the arrays of a cell as its protocol counts them.

  Args:
    judging: of the data.
    arrays: of the examples at `positions`, whose classes are numbers of choices.
    positions: in the data.

  >>> seen = {"label": np.array([1, 4]), "clean_prediction": np.array([2, 4]), "nan": np.array([False, False])}
  >>> found = judged(Judging(accepted=[(1, 2), (3,)]), {**seen, "prediction": seen["clean_prediction"]}, np.arange(2))
  >>> found["correct"].tolist(), found["robust"].tolist()
  ([True, False], [True, False])
  """
  found = {**arrays, **{name: judging.class_of(arrays[name]) for name in _CLASSES}}
  if judging.accepted is None:
    return found
  said = zip(found["clean_prediction"].tolist(), positions.tolist(), strict=True)
  right = np.array([answer in judging.accepted[place] for answer, place in said], bool)
  return {**found, "correct": right, "robust": right & ~found["nan"]}
