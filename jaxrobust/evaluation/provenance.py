"""What a number was computed with: recorded in every cell, never compared."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

import jax

_PACKAGES = ("jaxrobust", "jax", "jaxlib", "flax", "optax", "numpy")


def provenance(precision: str) -> dict[str, Any]:
  """Versions, platform and precision."""
  versions: dict[str, str | None] = {}
  for package in _PACKAGES:
    try:
      versions[package] = metadata.version(package)
    except metadata.PackageNotFoundError:
      versions[package] = None
  return {
    "versions": versions,
    "python": platform.python_version(),
    "platform": jax.default_backend(),
    "device": jax.devices()[0].device_kind,
    "precision": precision,
  }
