"""How a network sees pictures: the preprocessing of its published evaluation, by what is known of it."""

from __future__ import annotations

import os

from jaxrobust.core.classifier import Classifier
from jaxrobust.data.preprocessing import preprocessing_name
from jaxrobust.models.registry import MODELS
from jaxrobust.models.zoo import find_classifier, input_shape_of, read_metadata

# Below this side nobody cuts a border away.
SMALL_SIDE = 96


def model_preprocessing(folder: str | os.PathLike) -> str:
  """Returns what a saved classifier is evaluated with: its notes say, or else its architecture; empty if unknown."""
  metadata = read_metadata(find_classifier(folder))
  if metadata is None:
    return ""
  said = metadata["notes"].get("preprocess")
  if isinstance(said, str) and said:
    return said
  if metadata["arch"] not in MODELS:
    return ""
  spec = MODELS[metadata["arch"]]
  return preprocessing_name(input_shape_of(metadata)[0], spec.crop_fraction, spec.interpolation)


def preprocessing_for(classifier: Classifier) -> str:
  """Returns what suits a classifier of which only the size of its images is known; empty if not even that."""
  side = side_of(classifier)
  return "" if side is None else preprocessing_name(side, 1.0 if side < SMALL_SIDE else 0.875)


def side_of(classifier: Classifier) -> int | None:
  """Returns the side of the images that a classifier takes, if it says so."""
  return None if classifier.input_shape is None else classifier.input_shape[0]
