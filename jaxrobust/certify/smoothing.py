"""Randomized smoothing: what a classifier says of most noisy copies of an image, and how far that is certain.

Cohen et al. 2019 (arXiv:1902.02918): the smoothed classifier answers with the class that the base classifier gives to
most copies with Gaussian noise of scale sigma. If that class has a probability of at least p > 1/2, the answer is the
same within an l2 distance of sigma Phi^-1(p). n0 = 100 copies choose the class, n = 100,000 others bound p from below
by Clopper and Pearson at level alpha = 0.001; a bound of 1/2 or less is no answer (abstain).

`decide` asks less: whether the smoothed classifier is certain of the label within *one* radius. It takes a p above
Phi(r / sigma), which a confidence sequence (`confidence.py`) proves, or refutes, as soon as the votes allow.

What is certified is the smoothed classifier, with probability 1 - alpha: its cells carry sigma in the model's name, so
that they are never mixed with those of the base classifier. Noise is a function of (seed, example id, number of the
copy): counts can be continued at any copy. Noisy copies are not cut to [0, 1], as in the paper.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.certify.confidence import ProbabilityTest, clopper_pearson
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.keys import check_seed
from jaxrobust.core.types import Array

ABSTAIN = -1
_NORMAL = NormalDist()
# Copies in one dispatch; fixed, because the noise of a copy is drawn with its dispatch.
COPIES = 64
# Beside the keys of attacks, which fold in a stage.
_STREAM = 0x5307


@functools.partial(jax.jit, static_argnames="classes")
def _votes(classifier: Classifier, image: Array, key: Array, sigma: Array, start: Array, classes: int) -> Array:
  """Returns how many of the copies from `start` on are given each class."""
  keys = jax.vmap(lambda copy: jax.random.fold_in(key, start + copy))(jnp.arange(COPIES))
  noise = jax.vmap(lambda one: jax.random.normal(one, image.shape))(keys)
  logits = classifier(image + sigma * noise)
  chosen = jnp.where(jnp.isfinite(logits).all(-1), jnp.argmax(logits, -1), classes)
  return jnp.bincount(chosen, length=classes)


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

  def _key(self, example: int, stream: int) -> Array:
    key = jax.random.fold_in(jax.random.key(self.seed), _STREAM + stream)
    return jax.random.fold_in(key, example)

  def count(
    self, classifier: Classifier, image: np.ndarray, example: int, stream: int, start: int, n: int
  ) -> np.ndarray:
    """Returns the votes of copies `start` to `start + n`, rounded up to whole dispatches.

    Args:
      stream: 0 for the copies that choose, 1 for those that count.
    """
    key, classes = self._key(example, stream), classifier.num_classes
    pixels = jnp.asarray(image, jnp.float32)
    parts = [
      _votes(classifier, pixels, key, jnp.float32(self.sigma), jnp.int32(at), classes)
      for at in range(start, start + n, COPIES)
    ]
    return np.asarray(jax.device_get(parts)).sum(0)

  def certify(self, classifier: Classifier, image: np.ndarray, example: int) -> Smoothed:
    """Returns the class and the radius of one image; `example` is its id, which its noise belongs to."""
    chosen = self.choose(classifier, image, example)
    votes = self.count(classifier, image, example, 1, 0, self.n)
    samples = -(-self.n // COPIES) * COPIES
    return self.conclude(chosen, int(votes[chosen]), samples, -(-self.n0 // COPIES) * COPIES)

  def choose(self, classifier: Classifier, image: np.ndarray, example: int) -> int:
    """Returns the class that most of `n0` copies are given, which nothing is certain of."""
    return int(self.count(classifier, image, example, 0, 0, self.n0).argmax())

  def conclude(self, chosen: int, votes: int, samples: int, before: int = 0) -> Smoothed:
    """Returns what so many votes of `samples` for a class say.

    >>> Smoothing(1.0).conclude(3, 99_000, 100_000).radius.__round__(3), Smoothing(1.0).conclude(3, 50_100, 100_000)
    (2.29, Smoothed(prediction=-1, radius=0.0, samples=100000))
    """
    bound = clopper_pearson(votes, samples, self.alpha)
    if bound <= 0.5:
      return Smoothed(ABSTAIN, 0.0, samples + before)
    return Smoothed(chosen, self.sigma * _NORMAL.inv_cdf(bound), samples + before)

  def decide(self, classifier: Classifier, image: np.ndarray, label: int, example: int, radius: float) -> Smoothed:
    """Tells whether the answer is `label` within `radius`, with as few copies as it takes.

    A radius of 0 in the result is a no: the probability is too small, or `n` copies do not tell.
    """
    if not radius >= 0:
      raise InputError(f"a radius is at least 0, got {radius}")
    least = _NORMAL.cdf(radius / self.sigma)
    if least == 1:  # No number of votes proves that much.
      return Smoothed(ABSTAIN, 0.0, 0)
    test = ProbabilityTest(least, self.alpha)
    votes = samples = 0
    while samples < self.n:
      # Looks are free in a confidence sequence; dispatches are not.
      more = min(max(COPIES, samples // 4 // COPIES * COPIES), self.n - samples)
      votes += int(self.count(classifier, image, example, 1, samples, more)[label])
      samples += -(-more // COPIES) * COPIES
      proved = test.proves(votes, samples)
      if proved:
        return Smoothed(label, radius, samples) if proved > 0 else Smoothed(ABSTAIN, 0.0, samples)
    return Smoothed(ABSTAIN, 0.0, samples)
