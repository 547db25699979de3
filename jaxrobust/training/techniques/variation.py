"""VR: variation regularization, a defense against unforeseen attacks; Dai et al. 2022 (arXiv:2204.13779).

  CE(f(x'), y) + weight max_{x1, x2} |h(x1) - h(x2)|_2,        x1, x2 in the ball around x

h are the features that the last layer sees (or the logits, `on="logits"`). x' is PGD's; x1 and x2 climb together from
two random starts. Defaults: weight 0.1, 10 steps of eps / 4.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxrobust.attacks import norms
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.types import Array
from jaxrobust.training.coupled import features_of
from jaxrobust.training.technique import TECHNIQUES, Batch, Context, Losses, Network
from jaxrobust.training.techniques.adversarial import InnerMaximization
from jaxrobust.training.techniques.objectives import soft_cross_entropy

# Keeps the gradient of the distance finite where two answers are equal.
_SMALLEST = 1e-12
Answer = Callable[[Array, Any], tuple[Array, Any]]
"""(images, batch statistics) -> what the variation is measured on, and the statistics afterwards."""


def variation(first: Array, second: Array) -> Array:
  """Returns the l2 distance between rows."""
  return jnp.sqrt(jnp.sum(jnp.square(first - second), axis=-1) + _SMALLEST)


def with_variation(plain: Losses, answer: Answer, pair: Sequence[Array], weight: float) -> Losses:
  """Adds the variation between the answers to two batches of images."""
  first, stats = answer(pair[0], plain.batch_stats)
  second, stats = answer(pair[1], stats)
  return plain._replace(values=plain.values + weight * variation(first, second), batch_stats=stats)


@TECHNIQUES.register("vr")
@dataclasses.dataclass(frozen=True)
class VariationRegularization(InnerMaximization):
  """PGD-AT with the variation in the ball; the attack's settings serve both searches."""

  weight: float = 0.1
  on: str = "features"

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.on not in ("features", "logits"):
      raise unknown_name("output to regularize", self.on, ["features", "logits"])

  def craft(self, batch: Batch, context: Context) -> tuple[Array, Array, Array]:
    return self.search(batch, context), *self._pair(batch, context)

  def _answers(self, context: Context, images: Array) -> Array:
    """Returns what the variation is measured on, for the network that is attacked."""
    classifier = self.attacked(context)
    return classifier(images) if self.on == "logits" else features_of(classifier, images)

  def _pair(self, batch: Batch, context: Context) -> tuple[Array, Array]:
    eps = self.budget * context.eps_scale
    keys = jax.vmap(jax.random.split)(batch.keys)
    start = lambda number: jax.vmap(lambda key, x: norms.random_start(self.norm, key, x, eps))(
      keys[:, number], batch.images
    )

    def move(image: Array, center: Array, grad: Array) -> Array:
      step = norms.steepest(self.norm, grad, self.step_size * eps, image)
      return norms.project(self.norm, image + step, center, eps)

    def step(_: int, pair: tuple[Array, Array]) -> tuple[Array, Array]:
      between = lambda pair: jnp.sum(variation(*(self._answers(context, images) for images in pair)))
      grads = jax.grad(between)(pair)
      first, second = (jax.vmap(move)(images, batch.images, grad) for images, grad in zip(pair, grads, strict=True))
      return first, second

    return jax.lax.fori_loop(0, self.num_steps, step, (start(0), start(1)))

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    images, *pair = context.crafted
    logits, stats = network(images, context.batch_stats)
    values = soft_cross_entropy(context.margin(logits, batch.targets), batch.targets)
    answer = network if self.on == "logits" else network.features
    return with_variation(Losses(values, logits, stats), answer, pair, self.weight)
