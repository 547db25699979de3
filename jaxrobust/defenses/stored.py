"""Classifiers on disk with the defenses that they are stored with."""

from __future__ import annotations

import os

from jaxrobust.core.classifier import Classifier
from jaxrobust.defenses.registry import defended_by
from jaxrobust.models import zoo


def load_classifier(path: str | os.PathLike, defense: str = "") -> Classifier:
  """Loads a classifier from a folder or by the name of one of the package, behind the defenses that it is stored with.

  Args:
    path: of `save_classifier`, `save_portable`, or a name of `jaxrobust list zoo`.
    defense: more defenses, as `jpeg,quality=75`, that see the image before those.
  """
  classifier = zoo.load_classifier(path, bare=True)
  metadata = zoo.read_metadata(zoo.find_classifier(path))
  stored = metadata["defense"] if metadata is not None else ""
  return defended_by(defended_by(classifier, stored), defense)
