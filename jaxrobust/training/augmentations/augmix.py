"""AugMix: chains of mild operations, mixed with the image, and a network that says the same of every mixture.

Hendrycks et al. 2020 (arXiv:1912.02781). A view is (1 - m) x + m sum_i w_i chain_i(x), with w ~ Dirichlet(1, 1, 1),
m ~ Beta(1, 1) and chains of 1 to 3 operations of strength up to `severity` of 10 (3 on CIFAR-10, 1 on ImageNet); no
operation is among the ImageNet-C corruptions.

  augmix      one view of each image, nothing else
  augmix-jsd  cross-entropy on the image and `weight` (12) times the Jensen–Shannon divergence of the predictions on
              the image and two views:  JS(p, q, r) = (KL(p|m) + KL(q|m) + KL(r|m)) / 3,  m = (p + q + r) / 3

Known deviations: strengths are not rounded to whole degrees and pixels; bilinear geometry.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.training.augmentations.operations import Space, nothing, perform, random_sign, signed
from jaxrobust.training.technique import TECHNIQUES, Augmentation, Batch, Context, Losses, Network, Objective
from jaxrobust.training.techniques.objectives import soft_cross_entropy

# Of the mixture, inside the logarithm.
SMALLEST = 1e-7
SPACE: Space = {
  "autocontrast": nothing,
  "equalize": nothing,
  "posterize": lambda level, sign: 4 - jnp.floor(4 * level),
  "rotate": signed(30.0),
  "solarize": lambda level, sign: 256 - jnp.floor(256 * level),
  "shear-x": signed(0.3),
  "shear-y": signed(0.3),
  "translate-x": signed(1 / 3),
  "translate-y": signed(1 / 3),
}


@TECHNIQUES.register("augmix")
@dataclass(frozen=True)
class AugMix(Augmentation):
  """One AugMix view of each image."""

  severity: float = 3.0
  width: int = 3
  depth: int = 3

  def __post_init__(self) -> None:
    if not 0.1 <= self.severity <= 10 or self.width < 1 or self.depth < 1:
      raise InputError(f"augmix needs a severity in [0.1, 10], a width and a depth of at least 1, got {self}")

  def augment(self, image: Array, key: Array) -> Array:
    weight_key, blend_key, chain_key = jax.random.split(key, 3)
    # Dirichlet(1, …, 1) and Beta(1, 1), without the loops that sample the general ones.
    weights = jax.random.exponential(weight_key, (self.width,))
    weights = weights / jnp.sum(weights)
    blend = jax.random.uniform(blend_key)
    chains = jax.vmap(lambda k: self._chain(image, k))(jax.random.split(chain_key, self.width))
    mixture = jnp.tensordot(weights, chains, 1)
    return jnp.clip((1 - blend) * image + blend * mixture, 0.0, 1.0)

  def _chain(self, image: Array, key: Array) -> Array:
    depth = jax.random.randint(key, (), 1, self.depth + 1)

    def link(number: Array, image: Array) -> Array:
      pick, strength, sign = jax.random.split(jax.random.fold_in(key, number), 3)
      choice = jax.random.randint(pick, (), 0, len(SPACE))
      level = jax.random.uniform(strength, minval=0.1, maxval=self.severity) / 10
      changed = perform(SPACE, choice, image, level, random_sign(sign))
      return jnp.where(number < depth, changed, image)

    return jax.lax.fori_loop(0, self.depth, link, image)


def jensen_shannon(*logits: Array) -> Array:
  """Returns the mean divergence of some predictions from their mixture, over the last axis.

  >>> one = jnp.array([2.0, 0.0, -1.0])
  >>> abs(float(jensen_shannon(one, one, one))) < 1e-6
  True
  """
  log_parts = jax.nn.log_softmax(jnp.stack(logits).astype(jnp.float32))
  parts = jnp.exp(log_parts)
  log_mixture = jnp.log(jnp.maximum(jnp.mean(parts, axis=0), SMALLEST))
  return jnp.mean(jnp.sum(parts * (log_parts - log_mixture), axis=-1), axis=0)


@TECHNIQUES.register("augmix-jsd")
@dataclass(frozen=True)
class AugMixJSD(Objective):
  """The AugMix objective on the image and two views of it; the three go through the network as one batch."""

  weight: float = 12.0
  severity: float = 3.0

  def __post_init__(self) -> None:
    if self.weight < 0:
      raise InputError(f"the weight must not be negative, got {self.weight}")
    self.mixing  # noqa: B018 - raises for bad settings now

  @property
  def mixing(self) -> AugMix:
    return AugMix(self.severity)

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    views = [batch.images]
    for number in (1, 2):
      # The plain images used the examples' keys already.
      keys = jax.vmap(lambda k, number=number: jax.random.fold_in(k, 0x6A7364 + number))(batch.keys)
      views.append(jax.vmap(self.mixing.augment)(batch.images, keys))
    logits, stats = network(jnp.concatenate(views), context.batch_stats)
    clean, *others = jnp.split(logits, 3)
    own = soft_cross_entropy(context.margin(clean, batch.targets), batch.targets)
    values = own + self.weight * jensen_shannon(clean, *others)
    return Losses(values, clean, stats)
