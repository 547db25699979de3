"""Smoothing by votes: the class that a classifier names most often under Gaussian noise (Cohen et al. 2019,
arXiv:1902.02918, without its certificate).

  logits_c = log((1 + #{i ≤ n: argmax f(x + δ_i) = c}) / (n + C)),   δ_i ~ N(0, σ² I)

The one in the numerator (Laplace's rule) keeps them finite. Votes have no gradient. Adaptive: that of the logarithm of
the mean probability over the same draws (the soft vote of Salman et al. 2019, arXiv:1906.04584), averaged again over
draws by the engine (EOT). Defaults: σ 0.25, of Cohen et al.; 32 copies, for speed: theirs has 100 to guess the class.
Only a network trained with such noise keeps its accuracy.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.defense import Defense
from jaxrobust.core.errors import InputError
from jaxrobust.core.gradients import straight_through
from jaxrobust.core.types import Array
from jaxrobust.defenses.copies import over_copies
from jaxrobust.defenses.registry import DEFENSES


@DEFENSES.register("smoothing-vote")
@dataclasses.dataclass(frozen=True)
class SmoothingVote(Defense):
  """Votes of the classifier on noisy copies.

  Attributes:
    sigma: standard deviation of the noise, of images in [0, 1].
    copies: votes.
  """

  name = "smoothing-vote"
  randomized = True
  sigma: float = 0.25
  copies: int = 32

  def __post_init__(self) -> None:
    if self.sigma < 0 or self.copies < 1:
      raise InputError("smoothing-vote wants sigma of at least 0 and at least one copy")

  def answer(self, ask: Classifier, weights: Any, images: Array, key: Array | None) -> Array:
    return votes(self._asked(ask, images, key))

  def adaptive(self, ask: Classifier, weights: Any, images: Array, key: Array | None) -> Array:
    asked = self._asked(ask, images, key)
    soft = jax.nn.logsumexp(jax.nn.log_softmax(asked), axis=0)
    return straight_through(votes(asked), soft)

  def _asked(self, ask: Classifier, images: Array, key: Array | None) -> Array:
    """Returns the logits of all noisy copies, (copies, N, C)."""
    assert key is not None
    noisy = lambda key: jax.vmap(lambda x, k: x + self.sigma * jax.random.normal(k, x.shape))(
      images, jax.random.split(key, len(images))
    )
    return over_copies(lambda key, rest: ask(noisy(key), rest), key, self.copies)


def votes(logits: Array) -> Array:
  """Returns log-shares of the votes of (copies, N, C) logits; NaN where a copy has no finite ones.

  >>> jnp.exp(votes(jnp.array([[[3.0, 1.0]], [[2.0, 1.0]]]))).round(2).tolist()
  [[0.75, 0.25]]
  """
  copies, _, classes = logits.shape
  counts = jnp.sum(jax.nn.one_hot(jnp.argmax(logits, axis=-1), classes), axis=0)
  known = jnp.isfinite(logits).all((0, 2))
  return jnp.where(known[:, None], jnp.log((counts + 1) / (copies + classes)), jnp.nan)
