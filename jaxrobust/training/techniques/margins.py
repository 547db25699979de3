"""MMA: max-margin adversarial training; Ding et al. 2020 (arXiv:1812.02637).

Every example is trained at its own distance to the decision boundary. For those that are classified right, PGD at the
distance remembered from the last visit gives a direction; bisection along it finds the distance d where the answer
turns; the loss there is the cross-entropy, or nothing beyond the largest distance that is worth pursuing. Wrong
examples are trained as they are. A third of the gradient is that of the clean loss.

Defaults: largest distance `eps` 8/255 (the paper's d_max is 12, 20 or 32/255 in linf), searched up to 1.05 times as
far; distances start at 0.16 eps (0.005 at 8/255); 10 steps of 2.5 d / 10 on the soft logit margin; 10 bisections. The
memory is one distance per training example; they grow by themselves, so that the warm-up of attacks does nothing
here. Known deviation: the bisection, too, sees the network in evaluation mode.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.training.technique import TECHNIQUES, Batch, Context, Losses, Network
from jaxrobust.training.techniques.adversarial import InnerMaximization, craft
from jaxrobust.training.techniques.objectives import soft_cross_entropy

# How far beyond the largest margin the boundary is looked for.
_REACH = 1.05


class FoundMargins(NamedTuple):
  """Images at the boundary (wrong ones as they are), their distances, and who was right."""

  images: Array
  distances: Array
  right: Array


def soft_margin(true: Array, logits: Array) -> Array:
  """Returns log sum_{k != y} exp z_k - z_y: below zero where the answer is right beyond doubt.

  >>> round(float(soft_margin(jnp.array(0), jnp.array([2.0, 0.0, 0.0]))), 4)
  -1.3069
  """
  own = jnp.arange(logits.shape[-1]) == true
  others = jax.nn.logsumexp(jnp.where(own, -jnp.inf, logits))
  return others - jnp.sum(jnp.where(own, logits, 0.0))


@TECHNIQUES.register("mma")
@dataclasses.dataclass(frozen=True)
class MaxMargin(InnerMaximization):
  """`eps` is the largest margin that is worth pursuing."""

  clean: float = 1 / 3
  first: float = 0.16
  bisections: int = 10

  def __post_init__(self) -> None:
    super().__post_init__()
    if not 0 <= self.clean <= 1 or not 0 < self.first <= 1 or self.bisections < 1:
      raise InputError("mma needs clean in [0, 1], first in (0, 1] and at least 1 bisection")

  def init_state(self, shape: tuple[int, ...], examples: int) -> Array:
    del shape
    return jnp.full((examples,), self.first * self.budget)

  def craft(self, batch: Batch, context: Context) -> FoundMargins:
    classifier = self.attacked(context)
    true = jnp.argmax(batch.targets, axis=-1)
    margins = lambda images: jax.vmap(soft_margin)(true, classifier(images))
    right = margins(batch.images) < 0
    least = self.first * self.budget
    before = jnp.maximum(context.state[batch.ids], least)
    found = craft(self.attack, classifier, batch.images, true, before, batch.keys, soft_margin)
    toward = (found - batch.images) / _rows(before)
    at = lambda distance: jnp.clip(batch.images + _rows(distance) * toward, 0.0, 1.0)
    distances = self._bisect(lambda distance: margins(at(distance)) < 0, before)
    images = jnp.where(_rows(right), at(distances), batch.images)
    return FoundMargins(images, jnp.where(right, distances, 0.0), right)

  def _bisect(self, inside: Callable[[Array], Array], guess: Array) -> Array:
    """Returns where `inside` turns false, per row: the guess is looked at first."""

    def halve(_: int, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
      low, high, middle = carry
      still = inside(middle)
      low, high = jnp.where(still, middle, low), jnp.where(still, high, middle)
      return low, high, 0.5 * (low + high)

    begun = jnp.zeros_like(guess), jnp.full_like(guess, _REACH * self.budget), guess
    return jax.lax.fori_loop(0, self.bisections, halve, begun)[2]

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    found = context.crafted
    clean, stats = network(batch.images, context.batch_stats)
    moved, stats = network(found.images, stats)
    entropy = lambda logits: soft_cross_entropy(context.margin(logits, batch.targets), batch.targets)
    worth = ~found.right | (found.distances < self.budget)
    values = self.clean * entropy(clean) + (1 - self.clean) * jnp.where(worth, entropy(moved), 0.0)
    return Losses(values, moved, stats)

  def update_state(self, batch: Batch, context: Context, ascent: None) -> Array:
    del ascent
    return context.state.at[batch.ids].set(context.crafted.distances)


def _rows(values: Array) -> Array:
  return values[:, None, None, None]
