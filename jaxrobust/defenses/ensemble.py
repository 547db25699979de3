"""Ensembles: the mean probability of several networks (ADP's prediction, Pang et al. 2019, arXiv:1901.08846).

  logits = log(1/(K + 1) Σ_k softmax(f_k(x))),   f_0 the classifier itself

Adaptive: its own gradient. The members keep their own weights, and are part of the fingerprint.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.defense import Defense
from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.defenses.registry import DEFENSES
from jaxrobust.models.families.ensembles import log_mean_probability
from jaxrobust.models.zoo import load_classifier


@DEFENSES.register("ensemble")
@dataclasses.dataclass(frozen=True)
class Ensemble(Defense):
  """The mean probability of a classifier and others.

  Attributes:
    members: folders or zoo names of the others, separated by colons.
  """

  name = "ensemble"
  members: str = ""

  def __post_init__(self) -> None:
    if not all(self.members.split(":")):
      raise InputError("an ensemble needs other classifiers: ensemble,members=FOLDER:FOLDER…")

  def weights(self) -> tuple[Classifier, ...]:
    return tuple(load_classifier(name) for name in self.members.split(":"))

  def config(self) -> dict[str, Any]:
    return {}  # Members count by their weights, not by where they lie.

  def answer(self, ask: Classifier, weights: Any, images: Array, key: Array | None) -> Array:
    voters = (ask, *weights)
    wrong = [str(one.num_classes) for one in voters if one.num_classes != ask.num_classes]
    if wrong:
      raise InputError(f"the members of an ensemble have {ask.num_classes} and {wrong[0]} classes")
    keys = [None] * len(voters) if key is None else list(jax.random.split(key, len(voters)))
    logits = jnp.stack([one(images, own) for one, own in zip(voters, keys, strict=True)])
    return log_mean_probability(logits, axis=0)
