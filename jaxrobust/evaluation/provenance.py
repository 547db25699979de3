"""Provenance: what a number was computed with, recorded in every cell, never compared."""

from __future__ import annotations

import functools
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.defense import undefended
from jaxrobust.models.registry import MODELS
from jaxrobust.models.zoo import find_classifier, read_metadata

_PACKAGES = ("jaxrobust", "jax", "jaxlib", "flax", "optax", "numpy")


def provenance(precision: str) -> dict[str, Any]:
  """Returns versions, platform and precision."""
  return {
    "versions": {package: _version(package) for package in _PACKAGES},
    "python": platform.python_version(),
    "platform": jax.default_backend(),
    "device": jax.devices()[0].device_kind,
    "precision": precision,
  }


@functools.cache  # Reading a package's metadata takes longer than judging a batch of small images.
def _version(package: str) -> str | None:
  try:
    return metadata.version(package)
  except metadata.PackageNotFoundError:
    return None


def about_model(folder: str | Path, classifier: Classifier) -> dict[str, Any]:
  """Says what is known of a saved classifier: architecture, family, training technique, size, notes."""
  metadata = read_metadata(find_classifier(folder))
  if metadata is None:
    return {}
  arch, notes = metadata["arch"], metadata["notes"]
  build = MODELS[arch].build if arch in MODELS else None
  module = getattr(getattr(build, "func", build), "__module__", "")
  about = {
    "arch": arch,
    "family": module.rpartition(".")[2].replace("_", "-"),
    "technique": _technique(notes),
    "params": count_numbers(classifier),
    "notes": notes,
  }
  return {key: value for key, value in about.items() if value not in (None, "")}


def _technique(notes: Mapping[str, Any]) -> str | None:
  """Returns the techniques of a classifier that was trained here; nothing is guessed of others."""
  train = notes.get("train")
  if not isinstance(train, Mapping) or "techniques" not in train:
    return None
  return "+".join(map(str, train["techniques"])) or "standard"


def count_numbers(classifier: Classifier) -> int:
  """Counts trained numbers: all weights, without batch statistics and normalization."""
  variables = undefended(classifier).variables
  if isinstance(variables, Mapping) and "module" in variables:
    variables = variables["module"]
  if isinstance(variables, Mapping) and "params" in variables:
    variables = variables["params"]
  return sum(int(leaf.size) for leaf in jax.tree.leaves(variables))
