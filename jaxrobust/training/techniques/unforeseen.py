"""Adversarial training within threats that are no norms, by the attack values that evaluate models.

  pat          perceptual adversarial training: FastLPA within 0.5 of the network's own features, 10 steps; Laidlaw et
               al. 2021 (arXiv:2006.12655, self-bounded, as their README trains on CIFAR-10)
  pat-vr      the same + weight |f(x1) - f(x2)|_2 on logits, of two points that fast-lpa drives apart from two starts;
              Dai et al. 2022 (arXiv:2204.13779), weight 0.1; there the second point's rate of change is measured
              against the first point, which is mended here
  stadv-at     StAdv within 0.05, 20 steps
  recolor-at   ReColorAdv within 0.06, 20 steps; both as perceptual-advex 0.2.6 has them

Cross-entropy is trained on, the margin is attacked. As in `--only_attack_correct` there, images that the network
already gets wrong stay as they are. Epochs are compared under the same attack, those of `pat` under PPGD. Mixtures
with norms, and REx, are `multi-at`'s; GAT is `composite`. Of the methods in OODRobustBench's section 6
(arXiv:2310.12793) three are not here, and what they would need: AS a second, standard network and one that mixes the
two in evaluation, PLAT and CARD more than one training run of one network.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from jaxrobust.attacks.losses import margin
from jaxrobust.attacks.perceptual_steps import PerceptualAttack
from jaxrobust.attacks.registry import make_attack
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.contract import bind_threat
from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.training.technique import TECHNIQUES, Batch, Context, Losses, Network
from jaxrobust.training.techniques.adversarial import AdversarialTraining, advance, craft, problems_of, steered
from jaxrobust.training.techniques.variation import variation, with_variation


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

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.norm != "linf":
      raise InputError(f"training against {self.attack.threat.name} has no norm: leave it out")

  @property
  def attack(self) -> Any:
    return steered(make_attack(self.method, num_steps=self.num_steps))

  def judged_by(self, steps: int) -> Any:
    # The last point of fast-lpa may lie outside, where no verification counts it.
    return make_attack("ppgd" if self.method == "fast-lpa" else self.method, num_steps=steps)

  def craft(self, batch: Batch, context: Context) -> Any:
    classifier, eps = self.attacked(context), self.budget * context.eps_scale
    attack = bind_threat(self.attack, classifier)
    found = craft(attack, classifier, batch.images, batch.targets, eps, batch.keys, target_margin)
    return self._where_right(found, batch, classifier)

  def _where_right(self, found: Array, batch: Batch, classifier: Classifier) -> Array:
    """Returns the images found, and the clean ones where these are not to be attacked."""
    if not self.only_correct:
      return found
    logits = jax.lax.stop_gradient(classifier(batch.images))
    right = jnp.argmax(logits, axis=-1) == jnp.argmax(batch.targets, axis=-1)
    return jnp.where(right[:, None, None, None], found, batch.images)


@TECHNIQUES.register("pat-vr")
@dataclasses.dataclass(frozen=True)
class PerceptualVariation(ThreatTraining):
  """Perceptual adversarial training with the variation of logits within the bound."""

  eps: str = "0.5"
  weight: float = 0.1

  def __post_init__(self) -> None:
    super().__post_init__()
    if not isinstance(self.attack, PerceptualAttack):
      raise InputError(f"pat-vr drives images apart by a perceptual attack, which {self.method} is not")

  def craft(self, batch: Batch, context: Context) -> tuple[Array, ...]:
    classifier = self.attacked(context)
    pair = (self._where_right(images, batch, classifier) for images in self._pair(batch, context, classifier))
    return super().craft(batch, context), *pair

  def _pair(self, batch: Batch, context: Context, classifier: Classifier) -> Iterator[Array]:
    """Drives two points apart, both from where they were before a step."""
    attack, keys = bind_threat(self.attack, classifier), jax.vmap(jax.random.split)(batch.keys)
    problems = [problems_of(batch.images, self.budget * context.eps_scale, keys[:, at]) for at in range(2)]
    apart = functools.partial(advance, attack, classifier, variation)

    def step(_: Array, pair: tuple[Any, Any]) -> tuple[Any, Any]:
      first, second = (classifier(states.image) for states in pair)
      return apart(problems[0], second, pair[0])[0], apart(problems[1], first, pair[1])[0]

    starts = tuple(jax.vmap(attack.init)(problem) for problem in problems)
    ends = jax.lax.fori_loop(0, self.num_steps, step, starts)
    return (jax.lax.stop_gradient(states.image) for states in ends)

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    images, *pair = context.crafted
    plain = super().loss(network, batch, context._replace(crafted=images))
    return with_variation(plain, network, pair, self.weight)


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
