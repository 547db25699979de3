"""Certify first: a schedule that spends nothing on what is proved.

An example whose certified radius reaches its budget is closed as robust without a query; any other goes through the
schedule as it would have, and a search for the smallest budget is told where it may begin. Verdicts are those of the
schedule alone, since no attack can break what is proved: only what they cost changes.

It pays where networks were trained for certificates, and costs a little where they were not. So a pilot decides, from
the first examples of the data set: the cheapest bound for all of them, and all that are asked for on a few. Where none
of them is proved, nothing is asked of the others. The pilot is the same for any batch, device or share of the examples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from jaxrobust.attacks.schedule import Example, Item, Outcome, Schedule, Stage
from jaxrobust.certify.certifier import METHODS, Certifier, certified_radii
from jaxrobust.certify.program import check_program
from jaxrobust.core.classifier import Classifier

# The number in place of the stage that broke an example, for one that was certified.
CERTIFIED_STAGE = -2
# Examples of the pilot, and those of them that the most expensive bound is tried on.
PILOT, PILOT_LAST = 16, 4
# Neurons behind the first ReLUs beyond which bounds of single neurons cost more than any attack.
MOST_NEURONS = 8192


@dataclass(frozen=True)
class CertifyFirst:
  """A schedule behind certificates; use it wherever a schedule is taken.

  Attributes:
    schedule: what examples go through that are not proved.
    radii: by position in the source, the distance within which no adversarial image can be.

  >>> from jaxrobust.attacks.registry import make_attack
  >>> from jaxrobust.attacks.schedule import as_schedule
  >>> first = CertifyFirst(as_schedule(make_attack("pgd", num_steps=5)), (0.1, 0.01))
  >>> shown = Example(0, -1, 0.05, np.array([1]), -1.0)
  >>> first.first(shown) is None, first.first(shown._replace(position=1)).eps
  (True, 0.05)
  """

  schedule: Schedule
  radii: tuple[float, ...]

  @property
  def stages(self) -> tuple[Stage, ...]:
    return self.schedule.stages

  @property
  def minimal(self) -> bool:
    return self.schedule.minimal

  @property
  def max_items(self) -> int:
    return self.schedule.max_items

  @property
  def name(self) -> str | None:
    return self.schedule.name

  @property
  def stops(self) -> tuple[int, ...]:
    return self.schedule.stops

  def first(self, example: Example) -> Item | None:
    told = self._told(example)
    return None if told.certified >= told.eps else self.schedule.first(told)

  def follow(self, example: Example, item: Item, outcome: Outcome) -> Item | None:
    return self.schedule.follow(self._told(example), item, outcome)

  def _told(self, example: Example) -> Example:
    return example._replace(certified=self.radii[example.position])


def affordable(classifier: Classifier, image_shape: tuple[int, int, int], method: str) -> str:
  """Returns the method, or the cheap one in its place where the network has too many neurons for more.

  >>> affordable(Classifier.from_function(lambda x: x[:, 0, 0], num_classes=2), (1, 1, 2), "crown")
  'crown'
  """
  neurons = sum(map(math.prod, check_program(classifier, image_shape)[1:]))
  by_neurons = any(bound.layers and bound.backward for bound in METHODS[method])
  return "crown-ibp" if by_neurons and neurons > MOST_NEURONS else method


def pays(certifier: Certifier, images: np.ndarray, labels: np.ndarray, eps: float) -> bool:
  """Tells from the first examples of a data set whether any of them is proved at a budget.

  Args:
    certifier: with the method asked for.
    images, labels: the first `PILOT` examples.
    eps: the budget.
  """
  cheap = certifier.limited(certifier.methods[:1])
  found = cheap(images, labels, np.full(len(labels), eps))
  if found.certified.any() or len(certifier.methods) == 1:
    return bool(found.certified.any())
  few = np.flatnonzero(found.correct)[:PILOT_LAST]
  return bool(len(few)) and bool(certifier(images[few], labels[few], np.full(len(few), eps)).certified.any())


def proved_radii(certifier: Certifier, images: np.ndarray, labels: np.ndarray, eps: float, start: float) -> np.ndarray:
  """Returns what a schedule is told of some examples: eps or 0, or certified radii where there is no budget (infinity).

  Args:
    start: of the search for radii.
  """
  if math.isfinite(eps):
    return np.where(certifier(images, labels, np.full(len(labels), eps)).certified, eps, 0.0)
  return np.nan_to_num(certified_radii(certifier, images, labels, start))
