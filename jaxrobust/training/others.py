"""Frozen classifiers that a technique asks: a teacher, a helper, the static networks of an ensemble.

They lie on the devices as the weights do and are arguments of the compiled step, never constants in it.
"""

from __future__ import annotations

from collections.abc import Iterable

import jax
from jax.sharding import Mesh

from jaxrobust.core.classifier import Classifier, check_logits
from jaxrobust.core.errors import InputError
from jaxrobust.models.zoo import fingerprint, load_classifier
from jaxrobust.training.state import state_shardings


def load_others(
  names: Iterable[str], num_classes: int, image_shape: tuple[int, int, int], mesh: Mesh, sharding: str = "data"
) -> tuple[dict[str, Classifier], dict[str, str]]:
  """The named classifiers (folders or zoo names) on the mesh, and their fingerprints.

  Raises:
    InputError: one of them cannot answer about the images.
  """
  others, fingerprints = {}, {}
  for name in dict.fromkeys(names):
    classifier = load_classifier(name)
    if classifier.num_classes != num_classes:
      raise InputError(f"{name} knows {classifier.num_classes} classes, the data have {num_classes}")
    check_logits(classifier, image_shape)
    fingerprints[name] = fingerprint(classifier)
    others[name] = jax.device_put(jax.device_get(classifier), state_shardings(classifier, mesh, sharding))
  return others, fingerprints
