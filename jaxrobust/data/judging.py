"""How answers about a data set are judged: among which classes a classifier chooses, and which of them are right.

Most sets have one right class among all that the classifier knows, which `Judging()` says. Others come with a protocol
of their own, without which a number cannot stand beside published ones: ImageNet-A, -R and -V show 200, 200 and 100
of the classes and choose among these (github.com/hendrycks/natural-adv-examples, `net(data)[:, indices_in_1k]`),
ObjectNet's objects stand for one or more classes each, ImageNet-ReaL accepts several classes of an image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Judging(NamedTuple):
  """Says what counts as a right answer.

  Attributes:
    choices: what a classifier chooses among, each one or more of its classes (the largest of their logits counts); a
      label is the first class of its choice. None for all of the classifier's classes.
    accepted: all right classes of each example, where an example may have several; None for its label alone.
    outliers: nothing is right: the images show no class at all, and only confidences mean something.
  """

  choices: tuple[tuple[int, ...], ...] | None = None
  accepted: Sequence[tuple[int, ...]] | None = None
  outliers: bool = False

  @property
  def text(self) -> str:
    """Says it in words for a reader; empty for the usual way.

    >>> Judging(((3,), (5, 7))).text, Judging(accepted=[(1, 2)]).text, Judging().text
    ('among 2 of the classes', 'any of several right classes', '')
    """
    parts = [] if self.choices is None else [f"among {len(self.choices)} of the classes"]
    parts += ["any of several right classes"] if self.accepted is not None else []
    parts += ["outliers, of no class"] if self.outliers else []
    return ", ".join(parts)

  def choice_of(self, labels: np.ndarray) -> np.ndarray:
    """Returns the choice that each label is, by number.

    >>> Judging(((3,), (5, 7))).choice_of(np.array([5, 3, 5])).tolist()
    [1, 0, 1]
    """
    if self.choices is None:
      return labels
    number = {choice[0]: i for i, choice in enumerate(self.choices)}
    return np.array([number[int(label)] for label in labels], np.int32)

  def class_of(self, numbers: np.ndarray) -> np.ndarray:
    """Returns the first class of each choice, given by number; -1 stays.

    >>> Judging(((3,), (5, 7))).class_of(np.array([1, -1])).tolist()
    [5, -1]
    """
    if self.choices is None:
      return numbers
    return np.array([choice[0] for choice in self.choices] + [-1], np.int32)[numbers]

  def select(self, ids: np.ndarray) -> Judging:
    """Returns the judging of some of the examples."""
    return self if self.accepted is None else self._replace(accepted=[self.accepted[int(i)] for i in ids])


USUALLY = Judging()


def judging_of(data: Any) -> Judging:
  """Returns how answers about a source are judged; the usual way where it says nothing.

  >>> judging_of(object()) == Judging()
  True
  """
  return getattr(data, "judging", USUALLY)


def own_classes(labels: np.ndarray) -> tuple[tuple[int, ...], ...]:
  """Returns the classes that occur as choices.

  >>> own_classes(np.array([7, 2, 7]))
  ((2,), (7,))
  """
  return tuple((int(label),) for label in np.unique(labels))
