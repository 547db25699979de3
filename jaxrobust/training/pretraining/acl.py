"""ACL: contrastive pre-training on adversarial views; Jiang et al. 2020 (arXiv:2010.13187), dual stream.

  (NT-Xent(x1, x2) + NT-Xent(x1 + d1, x2 + d2)) / 2,   d raising the contrastive loss, |d| <= 8/255, PGD-5

Temperature 0.5, a two-layer projection to 128. `dual` False keeps the adversarial stream alone (their A2A). Known
deviations: each image is attacked alone, against the clean embeddings of all others, by the attack values that
everything else uses; and the two streams share the affine part of batch norm (theirs has two). Each stream is
normalized by its own batch, and the running statistics that fine-tuning starts from are the adversarial ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.training.augmentations.views import ContrastiveViews, two_views
from jaxrobust.training.pretraining.contrast import Contrast
from jaxrobust.training.pretraining.moco import info_nce
from jaxrobust.training.technique import TECHNIQUES, Batch, Context, Losses, Network, Objective
from jaxrobust.training.techniques.adversarial import AdversarialTraining, craft


def nt_xent(one: Array, two: Array, temperature: float) -> tuple[Array, Array]:
  """Returns the loss of each pair of views against all other views of the batch, and how often the pair is the nearest.

  >>> values, right = nt_xent(jnp.eye(3), jnp.eye(3), 0.1)
  >>> bool((values < 0.01).all()), float(right.mean())
  (True, 1.0)
  """
  count = len(one)
  both = jnp.concatenate([one, two])
  logits = both @ both.T / temperature
  logits = jnp.where(jnp.eye(2 * count, dtype=bool), -jnp.inf, logits)
  partners = jnp.concatenate([jnp.arange(count, 2 * count), jnp.arange(count)])
  values, right = info_nce(logits, partners)
  return jnp.mean(values.reshape(2, count), axis=0), jnp.mean(right.reshape(2, count), axis=0)


@TECHNIQUES.register("acl")
@dataclass(frozen=True)
class ACL(Objective):
  """NT-Xent on adversarial views, and on clean ones if `dual`."""

  temperature: float = 0.5
  eps: str = "8/255"
  num_steps: int = 5
  step_size: float = 0.25
  dual: bool = True
  features: int = 128
  hidden: int = 512
  smallest: float = 0.2

  def __post_init__(self) -> None:
    if not self.temperature > 0:
      raise InputError(f"the temperature must be positive, got {self.temperature}")
    self.inner  # noqa: B018 - raises for bad settings now

  @property
  def inner(self) -> AdversarialTraining:
    return AdversarialTraining(self.eps, "linf", self.num_steps, self.step_size)

  def wrap(self, module: nn.Module) -> nn.Module:
    return Contrast(module.clone(num_classes=self.hidden), self.features, self.hidden)

  def craft(self, batch: Batch, context: Context) -> tuple[tuple[Array, Array], list[Array]]:
    """Returns two views of each image, and the adversarial form of each."""
    views = two_views(ContrastiveViews(self.smallest), batch.images, batch.keys)
    return views, self._attack(views, batch.keys, context)

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    del batch
    views, attacked = context.crafted
    one, _ = network(attacked[0], context.batch_stats)
    two, stats = network(attacked[1], context.batch_stats)
    values, correct = nt_xent(one, two, self.temperature)
    if self.dual:
      clean = [network(view, context.batch_stats)[0] for view in views]
      values = (values + nt_xent(clean[0], clean[1], self.temperature)[0]) / 2
    return Losses(values, one, stats, correct)

  def _attack(self, views: tuple[Array, Array], keys: Array, context: Context) -> list[Array]:
    """Returns each view moved away from its partner's embedding and toward the others'."""
    embeddings = [jax.lax.stop_gradient(context.classifier(view)) for view in views]
    rows, eps = jnp.arange(len(keys)), self.inner.budget * context.eps_scale
    crafted = []
    for number, view in enumerate(views):
      own, other = embeddings[number], embeddings[1 - number]
      references = jnp.concatenate([other, own])

      def distance(row: Array, embedding: Array, references: Array = references) -> Array:
        logits = references @ embedding / self.temperature
        # The image itself is not among its negatives.
        logits = jnp.where(jnp.arange(len(logits)) == row + len(rows), -jnp.inf, logits)
        return -jax.nn.log_softmax(logits)[row]

      own_keys = jax.vmap(lambda key, number=number: jax.random.fold_in(key, 0x61636C + number))(keys)
      crafted.append(craft(self.inner.attack, context.classifier, view, rows, eps, own_keys, loss=distance))
    return crafted
