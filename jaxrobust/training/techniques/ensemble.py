"""Ensemble adversarial training: images crafted on other, frozen networks too; Tramèr et al. 2018 (arXiv:1705.07204).

  (CE(f(x), y) + CE(f(x'), y)) / 2,     x' one step of the fast gradient sign method on a network drawn for each batch

from the one that is trained and the static ones, all equally likely. Defaults: eps 8/255, one step of the whole
budget from the image itself; the paper trains ImageNet at 16/255 with three or four static networks. Known deviation:
the paper's sources take turns; ours are drawn.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.types import Array
from jaxrobust.training.technique import TECHNIQUES, Batch, Context
from jaxrobust.training.techniques.adversarial import AdversarialTraining, craft


@TECHNIQUES.register("ensemble-at")
@dataclasses.dataclass(frozen=True)
class EnsembleTraining(AdversarialTraining):
  """`sources` are folders or zoo names of static classifiers; the other settings are those of `half-at`."""

  num_steps: int = 1
  step_size: float = 1.0
  random_start: bool = False
  clean: float = 0.5
  sources: tuple[str, ...] = ("",)

  def __post_init__(self) -> None:
    super().__post_init__()
    object.__setattr__(self, "sources", (self.sources,) if isinstance(self.sources, str) else tuple(self.sources))

  @property
  def classifiers(self) -> tuple[str, ...]:
    return self.sources

  def craft(self, batch: Batch, context: Context) -> Array:
    eps = self.budget * context.eps_scale

    def attack(classifier: Classifier) -> Array:
      return craft(self.attack, classifier, batch.images, batch.targets, eps, batch.keys)

    networks = [self.attacked(context), *(context.frozen_models[name] for name in self.sources)]
    drawn = jax.random.randint(context.key, (), 0, len(networks))
    if all(_alike(networks[0], other) for other in networks[1:]):
      # One program for all: a network inside a switch is slow on a CPU.
      pick = lambda *leaves: jnp.stack(leaves)[drawn]
      variables = jax.tree.map(pick, *(network.variables for network in networks))
      return attack(dataclasses.replace(networks[0], variables=variables))
    return jax.lax.switch(drawn, [functools.partial(attack, network) for network in networks])


def _alike(one: Classifier, other: Classifier) -> bool:
  """Returns whether two classifiers differ in their weights only."""
  shapes = [
    jax.tree.map(lambda leaf: (jnp.shape(leaf), jnp.result_type(leaf)), each.variables) for each in (one, other)
  ]
  return one.apply == other.apply and shapes[0] == shapes[1]
