"""Certify first: a schedule that spends nothing on what is proved.

An example whose certified radius reaches its budget is closed as robust without a query; any other goes through the
schedule as it would have, and a search for the smallest budget is told where it may begin. Verdicts are those of the
schedule alone, since no attack can break what is proved: only what they cost changes.

It pays where networks were trained for certificates, or attacks are long, and costs more than it saves elsewhere. So
each bound has to earn its place: on the first examples of the data set (the pilot), the share that it proves of those
it is asked about, times the passes of an attack that finds nothing, must be at least what it costs, in passes as well.
Both are counted, never timed, and the pilot is the same for any batch, device or share of the examples. A bound that
could not pay if it proved everything is not even compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from jaxrobust.attacks.schedule import Example, Item, Outcome, Schedule, Stage
from jaxrobust.certify.certifier import Certificates, Certifier, certified_radii
from jaxrobust.certify.crown import BoundMethod
from jaxrobust.certify.program import check_program
from jaxrobust.core.classifier import Classifier

# The number in place of the stage that broke an example, for one that was certified.
CERTIFIED_STAGE = -2
# Examples of the pilot, and those of them that bounds of single neurons are tried on.
PILOT, PILOT_LAST = 16, 8
# Neurons behind the first ReLUs beyond which bounds of single neurons take too long, whatever they save.
MOST_NEURONS = 8192
# What a neuron costs beside a forward pass of an attack, as measured on networks of two convolutions that were trained
# for certificates: its row starts below the top, and the sign of most is known without one.
NEURON_PASSES = 0.15


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
    return None if told.certified >= told.eps > 0 else self.schedule.first(told)

  def follow(self, example: Example, item: Item, outcome: Outcome) -> Item | None:
    return self.schedule.follow(self._told(example), item, outcome)

  def _told(self, example: Example) -> Example:
    return example._replace(certified=self.radii[example.position])


def hidden_neurons(classifier: Classifier, image_shape: tuple[int, int, int]) -> int:
  """Returns how many neurons a network has behind its first maxima, those that bounds of single neurons are asked of.

  >>> hidden_neurons(Classifier.from_function(lambda x: x[:, 0, 0], num_classes=2), (1, 1, 2))
  0
  """
  return sum(map(math.prod, check_program(classifier, image_shape)[1:]))


def bound_passes(method: BoundMethod, neurons: int, classes: int) -> float:
  """Returns what a bound costs per image at the most, in forward passes.

  Intervals are two passes; a row that is pulled back from the logits to the image is one, an ascent of its slopes three
  more; a neuron counts as `NEURON_PASSES`, once for parallel lines and twice for others.

  >>> bound_passes(BoundMethod(layers=False), 1124, 10), bound_passes(BoundMethod(parallel=True), 1124, 10)
  (12.0, 180.6)
  """
  if not method.backward:
    return 2.0
  singles = neurons * (1 if method.parallel else 2) if method.layers else 0
  return 2.0 + classes * (1 + 3 * method.ascents) + NEURON_PASSES * singles


@dataclass(frozen=True)
class BoundPilot:
  """The first examples of a data set, and what bounds have said of them, which is asked once for all attacks.

  Attributes:
    certifier: with all bounds that are asked for, cheapest first.
    examples: images and labels at some positions.
    count: how many there are, `PILOT` or fewer.
    neurons: that bounds of single neurons are asked of.
    answers: by bound, budget and examples.
  """

  certifier: Certifier
  examples: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
  count: int
  neurons: int
  answers: dict[tuple[BoundMethod, float, bytes], Certificates] = field(default_factory=dict)

  def ask(self, method: BoundMethod, eps: float, rows: np.ndarray) -> Certificates:
    """Returns what one bound says of some of the examples."""
    key = method, eps, rows.tobytes()
    if key not in self.answers:
      self.answers[key] = self.certifier.limited((method,))(*self.examples(rows), np.full(len(rows), eps))
    return self.answers[key]


def paying_bounds(pilot: BoundPilot, eps: float, passes: float) -> tuple[BoundMethod, ...]:
  """Returns the bounds that save more passes than they cost, by the first examples of a data set.

  Args:
    pilot: these examples.
    eps: the budget.
    passes: of an attack that finds nothing, per example; infinity keeps every bound that proves anything.
  """
  kept: list[BoundMethod] = []
  left = np.arange(pilot.count)
  for method in pilot.certifier.methods:
    cost = bound_passes(method, pilot.neurons, pilot.certifier.num_classes)
    by_neurons = method.backward and method.layers
    if cost > passes or (by_neurons and pilot.neurons > MOST_NEURONS):
      continue
    asked = left[:PILOT_LAST] if by_neurons else left
    found = pilot.ask(method, eps, asked)
    left = np.setdiff1d(left, asked[found.certified | ~found.correct])
    if found.certified.any() and found.certified.sum() * passes >= found.correct.sum() * cost:
      kept.append(method)
    elif by_neurons:
      break  # Where one bound of single neurons does not pay, a dearer one does not either.
  return tuple(kept)


def proved_radii(certifier: Certifier, images: np.ndarray, labels: np.ndarray, eps: float, start: float) -> np.ndarray:
  """Returns what a schedule is told of some examples: eps or 0, or certified radii where there is no budget (infinity).

  Args:
    start: of the search for radii.
  """
  if math.isfinite(eps):
    return np.where(certifier(images, labels, np.full(len(labels), eps)).certified, eps, 0.0)
  return np.nan_to_num(certified_radii(certifier, images, labels, start))
