"""Randomized smoothing: what a classifier says of most noisy copies of an image, and how far that is certain.

Cohen et al. 2019 (arXiv:1902.02918): the smoothed classifier answers with the class that the base classifier gives to
most copies with Gaussian noise of scale sigma. If that class has a probability of at least p > 1/2, the answer is the
same within an l2 distance of sigma Phi^-1(p). n0 = 100 copies choose the class, n = 100,000 others bound p from below
by Clopper and Pearson at level alpha = 0.001; a bound of 1/2 or less is no answer (abstain).

`decide` asks less: whether the smoothed classifier is certain of the label within *one* radius. It takes a p above
Phi(r / sigma), which a confidence sequence (`confidence.py`) proves, or refutes, as soon as the votes allow.

How many copies an image needs is said by rules, which `vote_slots.py` serves for many images at once.

What is certified is the smoothed classifier, with probability 1 - alpha: its cells carry sigma in the model's name, so
that they are never mixed with those of the base classifier. Noise is a function of (seed, example id, number of the
copy): counts can be continued at any copy. Noisy copies are not cut to [0, 1], as in the paper.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from jaxrobust.certify.confidence import ProbabilityTest, clopper_pearson
from jaxrobust.certify.vote_slots import CHOOSING, COPIES, COUNTING, Ballot, More, Rule, Tally, VoteSlots
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.keys import check_seed

ABSTAIN = -1
_NORMAL = NormalDist()


class Smoothed(NamedTuple):
  """What is certain of one image.

  Attributes:
    prediction: the class, or -1 where the classifier abstains.
    radius: within which it is the answer; 0 where it abstains.
    samples: noisy copies that were looked at.
  """

  prediction: int
  radius: float
  samples: int


@dataclass(frozen=True)
class Smoothing:
  """A smoothed classifier.

  Attributes:
    sigma: of the noise, in units of images in [0, 1].
    n0: copies that choose the class.
    n: copies that bound its probability; the most that `decide` looks at.
    alpha: probability of a wrong certificate, per image.
    seed: of all noise.

  >>> base = Classifier.from_function(lambda x: x[:, 0, 0], num_classes=2)
  >>> smoothing = Smoothing(sigma=0.25, n=1024)
  >>> found = smoothing.certify(base, np.array([[[0.9, 0.1]]], np.float32), 0)
  >>> found.prediction, bool(0.4 < found.radius < 0.57)  # The truth is 0.8 / sqrt(2).
  (0, True)
  """

  sigma: float
  n0: int = 100
  n: int = 100_000
  alpha: float = 0.001
  seed: int = 0

  def __post_init__(self) -> None:
    check_seed(self.seed)
    if not self.sigma > 0 or self.n0 < 1 or self.n < 1 or not 0 < self.alpha < 1:
      raise InputError(f"smoothing needs sigma > 0, n0 and n of at least 1 and alpha in (0, 1), got {self}")

  @property
  def suffix(self) -> str:
    """What the name of a model ends with in cells of its smoothed form."""
    return f"+smoothed-{self.sigma:g}"

  def slots(self, classifier: Classifier, image_shape: tuple[int, ...], slots: int | None = None) -> VoteSlots:
    """Returns the slots that count votes of copies with this noise."""
    return VoteSlots(classifier, image_shape, self.sigma, self.seed, slots)

  def count(
    self, classifier: Classifier, image: np.ndarray, example: int, stream: int, start: int, n: int
  ) -> np.ndarray:
    """Returns the votes of copies `start` to `start + n`, rounded up to whole dispatches.

    Args:
      stream: 0 for the copies that choose, 1 for those that count.
    """
    tally = Tally.empty(classifier.num_classes)
    tally.samples[stream] = start

    def rule(tally: Tally) -> More | np.ndarray:
      left = start + n - int(tally.samples[stream])
      return More(stream, left) if left > 0 else tally.votes[stream]

    return self._answer(classifier, image, example, rule, tally)

  def certify(self, classifier: Classifier, image: np.ndarray, example: int) -> Smoothed:
    """Returns the class and the radius of one image; `example` is its id, which its noise belongs to."""
    return self._answer(classifier, image, example, self.certify_rule)

  def choose(self, classifier: Classifier, image: np.ndarray, example: int) -> int:
    """Returns the class that most of `n0` copies are given, which nothing is certain of."""
    return self._answer(classifier, image, example, self.choose_rule)

  def decide(self, classifier: Classifier, image: np.ndarray, label: int, example: int, radius: float) -> Smoothed:
    """Tells whether the answer is `label` within `radius`, with as few copies as it takes.

    A radius of 0 in the result is a no: the probability is too small, or `n` copies do not tell.
    """
    return self._answer(classifier, image, example, self.decide_rule(label, radius))

  def _answer(
    self, classifier: Classifier, image: np.ndarray, example: int, rule: Rule, tally: Tally | None = None
  ) -> Any:
    ballot = Ballot(example, image, rule, tally or Tally.empty(classifier.num_classes))
    ((_, answer),) = itertools.chain(*self.slots(classifier, np.shape(image), 1).run([ballot]))
    return answer

  def choose_rule(self, tally: Tally) -> More | int:
    """Says what `choose` wants next, or its answer."""
    left = self.n0 - int(tally.samples[CHOOSING])
    return More(CHOOSING, left) if left > 0 else int(tally.votes[CHOOSING].argmax())

  def certify_rule(self, tally: Tally) -> More | Smoothed:
    """Says what `certify` wants next, or its answer: n0 copies, then n."""
    chosen = self.choose_rule(tally)
    if isinstance(chosen, More):
      return chosen
    before, samples = map(int, tally.samples)
    if samples < self.n:
      return More(COUNTING, self.n - samples)
    return self.conclude(chosen, int(tally.votes[COUNTING, chosen]), samples, before)

  def decide_rule(self, label: int, radius: float) -> Rule:
    """Returns the rule of `decide`."""
    if not radius >= 0:
      raise InputError(f"a radius is at least 0, got {radius}")
    least = _NORMAL.cdf(radius / self.sigma)
    if least == 1:  # No number of votes proves that much.
      return lambda tally: Smoothed(ABSTAIN, 0.0, 0)
    test, looks = _test(least, self.alpha), _looks(self.n)

    def rule(tally: Tally) -> More | Smoothed:
      votes, samples = int(tally.votes[COUNTING, label]), int(tally.samples[COUNTING])
      # Between looks nobody looks, so that a run that was stopped there ends as any other.
      proved = test.proves(votes, samples) if samples in looks else 0
      if proved > 0:
        return Smoothed(label, radius, samples)
      following = next((look for look in looks if look > samples), None)
      if proved < 0 or following is None:
        return Smoothed(ABSTAIN, 0.0, samples)
      return More(COUNTING, following - samples)

    return rule

  def conclude(self, chosen: int, votes: int, samples: int, before: int = 0) -> Smoothed:
    """Returns what so many votes of `samples` for a class say.

    >>> Smoothing(1.0).conclude(3, 99_000, 100_000).radius.__round__(3), Smoothing(1.0).conclude(3, 50_100, 100_000)
    (2.29, Smoothed(prediction=-1, radius=0.0, samples=100000))
    """
    bound = clopper_pearson(votes, samples, self.alpha)
    if bound <= 0.5:
      return Smoothed(ABSTAIN, 0.0, samples + before)
    return Smoothed(chosen, self.sigma * _NORMAL.inv_cdf(bound), samples + before)


@functools.lru_cache(64)
def _test(least: float, alpha: float) -> ProbabilityTest:
  return ProbabilityTest(least, alpha)


@functools.lru_cache(64)
def _looks(n: int) -> tuple[int, ...]:
  """Returns after how many copies `decide` looks at the votes: looks are free in a confidence sequence, dispatches not.

  >>> _looks(700)
  (64, 128, 192, 256, 320, 384, 448, 512, 640, 704)
  """
  looks = [0]
  while looks[-1] < n:
    more = min(max(COPIES, looks[-1] // 4 // COPIES * COPIES), n - looks[-1])
    looks.append(looks[-1] + -(-more // COPIES) * COPIES)
  return tuple(looks[1:])
