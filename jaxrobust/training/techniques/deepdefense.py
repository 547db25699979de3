"""DeepDefense: training with the length of DeepFool's perturbation; Yan et al. 2018 (arXiv:1803.00404).

  CE(f(x), y) + weight R,   R = exp(-c ‖Δ‖/‖x‖) where x is classified right, exp(d ‖Δ‖/‖x‖) where not

Δ is the l2 perturbation by which DeepFool leaves the right class or, from a wrong one, comes to the right one:
boundaries are pushed away in the first case and drawn near in the second. With x' = x + Δ on the boundary of the class
b that is reached and the class a that is left, g = z_b - z_a and w = ∇_x g(x'), the length changes with the weights by

  d‖Δ‖ = -dg(x') / (w · Δ/‖Δ‖)

(the boundary g = 0 moves along w; the implicit function theorem), which is the gradient that is used: one more pass.
Defaults: weight 15, c 25, d 5, 5 steps (the authors' code). Deviations: they differentiate the unrolled steps by a
second network that mirrors the first; here w is held fixed and the point that is found counts as being on the
boundary. The box is not left. Perturbations longer than the image itself count as of its length.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrobust.attacks.deepfool import DeepFool
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.gradients import ImageLogits
from jaxrobust.core.types import Array, Problem
from jaxrobust.training.technique import TECHNIQUES, Batch, Context, Losses, Network, Objective
from jaxrobust.training.techniques.objectives import soft_cross_entropy

_SMALLEST = 1e-6


class NearestBoundary(NamedTuple):
  """The end of DeepFool's way; one row per image.

  Attributes:
    images: x'.
    length: ‖Δ‖ over ‖x‖, 1 at the most.
    slope: w · Δ/‖Δ‖ times ‖x‖: how fast z_b - z_a grows with the length.
    right: whether the image is classified as labeled.
    left, reached: the classes a and b.
  """

  images: Array
  length: Array
  slope: Array
  right: Array
  left: Array
  reached: Array


def find_boundary(classifier: Classifier, image: Array, label: Array, key: Array, steps: int) -> NearestBoundary:
  """Returns where DeepFool leaves the right class of one image, or comes to it."""
  attack, model = DeepFool("l2", steps, refine=False), ImageLogits(classifier, key)
  predicted = jnp.argmax(model(image))
  right = predicted == label
  problem = Problem(image, predicted, jnp.where(right, -1, label), jnp.array(jnp.inf), key)
  state = jax.lax.fori_loop(0, steps, lambda _, state: attack.step(model, problem, state)[0], attack.init(problem))
  found = state.image
  logits = model(found)
  strongest = jnp.argmax(jnp.where(jnp.arange(logits.shape[0]) == label, -jnp.inf, logits))
  left, reached = jnp.where(right, label, strongest), jnp.where(right, strongest, label)

  def gap(image: Array) -> Array:
    logits = model(image)
    return logits[reached] - logits[left]

  normal = jax.grad(gap)(found)
  size, move = jnp.linalg.norm(image), found - image
  length = jnp.linalg.norm(move)
  slope = jnp.sum(normal * move) / jnp.maximum(length, _SMALLEST)
  return NearestBoundary(found, jnp.minimum(length / size, 1.0), slope * size, right, left, reached)


def deepdefense_regularizer(logits: Array, boundary: NearestBoundary, right_scale: float, wrong_scale: float) -> Array:
  """Returns R per example; `logits` are those at x', through which the gradient flows."""
  left, reached = (jnp.take_along_axis(logits, c[:, None], 1)[:, 0] for c in (boundary.left, boundary.reached))
  gap = reached - left
  # Where w and Δ are at odds the boundary is not where it was looked for: no gradient.
  rate = jnp.where(boundary.slope > _SMALLEST, 1 / jnp.maximum(boundary.slope, _SMALLEST), 0.0)
  length = boundary.length - rate * (gap - jax.lax.stop_gradient(gap))
  scale = jnp.where(boundary.right, -right_scale, wrong_scale)
  return jnp.exp(scale * length)


@TECHNIQUES.register("deepdefense")
@dataclasses.dataclass(frozen=True)
class DeepDefense(Objective):
  """Cross-entropy and the length of DeepFool's perturbation.

  Attributes:
    weight: of the regularizer.
    right_scale, wrong_scale: c and d.
    steps: of DeepFool.
  """

  weight: float = 15.0
  right_scale: float = 25.0
  wrong_scale: float = 5.0
  steps: int = 5

  def __post_init__(self) -> None:
    if min(self.weight, self.right_scale, self.wrong_scale) < 0 or self.steps < 1:
      raise InputError("weight, right_scale and wrong_scale must not be negative, and there is at least one step")

  def craft(self, batch: Batch, context: Context) -> NearestBoundary:
    find = jax.vmap(lambda image, label, key: find_boundary(context.classifier, image, label, key, self.steps))
    return jax.lax.stop_gradient(find(batch.images, jnp.argmax(batch.targets, axis=-1), batch.keys))

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    logits, stats = network(batch.images, context.batch_stats)
    moved, _ = network(context.crafted.images, stats)
    more = deepdefense_regularizer(moved, context.crafted, self.right_scale, self.wrong_scale)
    own = soft_cross_entropy(context.margin(logits, batch.targets), batch.targets)
    return Losses(own + self.weight * more, logits, stats)
