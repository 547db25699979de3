"""The standard objective, and the pieces that every objective is made of."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from jaxrobust.core.types import Array
from jaxrobust.training.technique import TECHNIQUES, Batch, Context, Losses, Network, Objective


def soft_cross_entropy(logits: Array, targets: Array) -> Array:
  """Returns -sum targets log softmax(logits), over the last axis.

  >>> round(float(soft_cross_entropy(jnp.zeros(4), jnp.array([1.0, 0, 0, 0]))), 4)
  1.3863
  """
  return -jnp.sum(targets * jax.nn.log_softmax(logits.astype(jnp.float32)), axis=-1)


def kl_divergence(reference: Array, logits: Array) -> Array:
  """Returns KL(softmax(reference) || softmax(logits)), over the last axis.

  >>> float(kl_divergence(jnp.array([0.0, 1.0]), jnp.array([0.0, 1.0])))
  0.0
  """
  log_p, log_q = (jax.nn.log_softmax(z.astype(jnp.float32)) for z in (reference, logits))
  return jnp.sum(jnp.exp(log_p) * (log_p - log_q), axis=-1)


def squared_error(reference: Array, logits: Array) -> Array:
  """Returns the squared distance between softmax(logits) and the probabilities `reference`: the Brier score.

  >>> float(squared_error(jnp.array([1.0, 0.0]), jnp.zeros(2)))
  0.5
  """
  return jnp.sum(jnp.square(jax.nn.softmax(logits.astype(jnp.float32)) - reference), axis=-1)


@TECHNIQUES.register("standard")
@dataclass(frozen=True)
class Standard(Objective):
  """Cross-entropy on the images as they come."""

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    logits, stats = network(batch.images, context.batch_stats)
    return Losses(soft_cross_entropy(context.margin(logits, batch.targets), batch.targets), logits, stats)
