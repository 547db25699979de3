"""ADP: adaptive diversity promoting, for ensembles; Pang et al. 2019 (arXiv:1901.08846).

  Σ_k CE(f_k(x), y) - alpha H(F(x)) - beta log det(M̃ᵀ M̃),   F = 1/K Σ_k softmax(f_k)

H is the entropy of the ensemble's prediction. The columns of M̃ are the members' probabilities of the wrong classes,
each divided by its l2 norm, so that the determinant is the squared volume that they span: members may agree on the
right class and must differ on the others, of which there have to be at least as many as members.
Defaults: alpha 2, beta 0.5 (the paper's for CIFAR-10), with K = 3. 1e-6 on the diagonal keeps the logarithm finite.
The network must be `ensemble` (`models.families.ensembles`). With soft targets the right class is the likeliest one.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.models.families.ensembles import log_mean_probability
from jaxrobust.training.technique import TECHNIQUES, Batch, Context, Losses, Network, Objective
from jaxrobust.training.techniques.objectives import soft_cross_entropy

_DIAGONAL = 1e-6


def adp_loss(logits: Array, targets: Array, alpha: float, beta: float) -> Array:
  """Returns the objective per example, from the (N, K, C) logits of the members."""
  own = jnp.sum(soft_cross_entropy(logits, targets[:, None]), axis=1)
  return own - alpha * ensemble_entropy(logits) - beta * log_diversity(logits, jnp.argmax(targets, -1))


def ensemble_entropy(logits: Array) -> Array:
  """Returns the entropy of the mean probability of (N, K, C) logits.

  >>> round(float(ensemble_entropy(jnp.zeros((1, 3, 4)))[0]), 4)
  1.3863
  """
  log_mean = log_mean_probability(logits, axis=1)
  return -jnp.sum(jnp.exp(log_mean) * log_mean, axis=-1)


def log_diversity(logits: Array, labels: Array) -> Array:
  """Returns log det(M̃ᵀ M̃ + 1e-6 I) of (N, K, C) logits.

  Members that are sure of different wrong classes span a volume of one:

  >>> sure = 30.0 * jnp.eye(3)[None, 1:]
  >>> bool(abs(log_diversity(sure, jnp.array([0]))[0]) < 1e-4)
  True
  """
  wrong = ~jax.nn.one_hot(labels, logits.shape[-1], dtype=bool)[:, None]
  # Normalized as logarithms: a member that is sure of the right class leaves almost nothing to the others.
  rest = jax.nn.softmax(jnp.where(wrong, logits, -jnp.inf))
  unit = rest / jnp.sqrt(jnp.sum(jnp.square(rest), axis=-1, keepdims=True))
  gram = jnp.einsum("nkc,njc->nkj", unit, unit, precision="highest")
  return jnp.linalg.slogdet(gram + _DIAGONAL * jnp.eye(gram.shape[-1]))[1]


@TECHNIQUES.register("adp")
@dataclasses.dataclass(frozen=True)
class DiversityPromoting(Objective):
  """The ADP objective; train `arch="ensemble"` with it."""

  alpha: float = 2.0
  beta: float = 0.5

  def __post_init__(self) -> None:
    if self.alpha < 0 or self.beta < 0:
      raise InputError(f"alpha and beta must not be negative, got {self.alpha} and {self.beta}")

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    logits, stats = network(batch.images, context.batch_stats, each=True)
    members, classes = logits.shape[1:]
    if members >= classes:
      raise InputError(f"{members} members cannot differ in {classes - 1} wrong classes")
    values = adp_loss(logits, batch.targets, self.alpha, self.beta)
    return Losses(values, log_mean_probability(logits, axis=1), stats)
