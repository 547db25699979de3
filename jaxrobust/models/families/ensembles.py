"""Several networks of one architecture that answer together: log of their mean probability.

  f(x) = log(1/K Σ_k softmax(f_k(x)))

as ensembles trained together do (ADP, Pang et al. 2019, arXiv:1901.08846: three ResNet-110). `each=True` gives the
logits of the members instead, (N, K, C), for objectives that look at them. Any architecture here may be the base.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.models.registry import MODELS, cifar_spec, make_model


class Committee(nn.Module):
  """`members` networks called `base`."""

  num_classes: int = 10
  base: str = "resnet20"
  members: int = 3

  def setup(self) -> None:
    if self.members < 1:
      raise InputError(f"an ensemble has at least one member, got {self.members}")
    self.member = [make_model(self.base, self.num_classes) for _ in range(self.members)]

  @property
  def evaluation_rngs(self) -> tuple[str, ...]:
    """Returns the streams that a member draws from in evaluation too."""
    return tuple(getattr(make_model(self.base, self.num_classes), "evaluation_rngs", ()))

  def __call__(self, x: Array, train: bool = False, each: bool = False) -> Array:
    logits = jnp.stack([network(x, train) for network in self.member], axis=1)
    if each:
      return logits
    return log_mean_probability(logits.astype(jnp.float32), axis=1)


def log_mean_probability(logits: Array, axis: int) -> Array:
  """Returns the logarithm of the mean probability over the members, which are along `axis` of (…, C) logits.

  >>> mean = jnp.exp(log_mean_probability(jnp.log(jnp.array([[0.5, 0.5], [0.9, 0.1]])), 0))
  >>> [round(float(part), 2) for part in mean]
  [0.7, 0.3]
  """
  return jax.nn.logsumexp(jax.nn.log_softmax(logits), axis=axis) - jnp.log(float(logits.shape[axis]))


MODELS.register("ensemble")(
  cifar_spec(Committee, "the mean probability of several networks, three ResNet-20 unless told otherwise")
)
