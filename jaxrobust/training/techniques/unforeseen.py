"""Adversarial training within threats that are no norms, by the attack values that evaluate models.

  pat          perceptual adversarial training: FastLPA within 0.5 of the network's own features, 10 steps; Laidlaw et
               al. 2021 (arXiv:2006.12655, self-bounded, as their README trains on CIFAR-10)
  stadv-at     StAdv within 0.05, 20 steps
  recolor-at   ReColorAdv within 0.06, 20 steps; both as perceptual-advex 0.2.6 has them

Cross-entropy is trained on, the margin is attacked. As in `--only_attack_correct` there, images that the network
already gets wrong stay as they are. Mixtures with norms, and REx, are `multi-at`'s. OODRobustBench's section 6
(arXiv:2310.12793) has further methods that are not here, and what they would need: GAT (arXiv:2202.04235) a threat that
composes hue, saturation, brightness, contrast, rotation and linf in an order which is searched too; PAT with VR the
pair of `vr` climbed within the perceptual bound; AS (a second, standard network and one that mixes the two in
evaluation), PLAT and CARD more than one training run of one network.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxrobust.attacks.losses import margin
from jaxrobust.attacks.registry import make_attack
from jaxrobust.core.contract import bind_threat
from jaxrobust.core.types import Array
from jaxrobust.training.technique import TECHNIQUES, Batch, Context
from jaxrobust.training.techniques.adversarial import AdversarialTraining, craft


def target_margin(targets: Array, logits: Array) -> Array:
  """Returns the margin by which another class beats the likeliest of the target probabilities.

  >>> float(target_margin(jnp.array([0.9, 0.1]), jnp.array([2.0, 3.5])))
  1.5
  """
  return margin(logits, jnp.argmax(targets), jnp.asarray(-1))


@dataclasses.dataclass(frozen=True)
class ThreatTraining(AdversarialTraining):
  """Trains on images crafted within a threat of its own.

  Attributes:
    method: the name of the attack.
    only_correct: images that the network gets wrong are not attacked.
  """

  method: str = "fast-lpa"
  only_correct: bool = True

  @property
  def attack(self) -> Any:
    return make_attack(self.method, num_steps=self.num_steps)

  def craft(self, batch: Batch, context: Context) -> Array:
    classifier, eps = self.attacked(context), self.budget * context.eps_scale
    attack = bind_threat(self.attack, classifier)
    found = craft(attack, classifier, batch.images, batch.targets, eps, batch.keys, target_margin)
    if not self.only_correct:
      return found
    logits = jax.lax.stop_gradient(classifier(batch.images))
    right = jnp.argmax(logits, axis=-1) == jnp.argmax(batch.targets, axis=-1)
    return jnp.where(right[:, None, None, None], found, batch.images)


@TECHNIQUES.register("pat")
def pat(**options: Any) -> ThreatTraining:
  """Perceptual adversarial training, bounded in the network's own features."""
  return ThreatTraining(**{"eps": "0.5", "num_steps": 10, **options})


@TECHNIQUES.register("stadv-at")
def stadv_at(**options: Any) -> ThreatTraining:
  """Trains against flows of pixels."""
  return ThreatTraining(**{"eps": "0.05", "num_steps": 20, "method": "stadv", **options})


@TECHNIQUES.register("recolor-at")
def recolor_at(**options: Any) -> ThreatTraining:
  """Trains against changes of colors."""
  return ThreatTraining(**{"eps": "0.06", "num_steps": 20, "method": "recolor", **options})
