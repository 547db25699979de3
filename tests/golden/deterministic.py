"""Weights and images that any program can draw again from a name and a shape: NumPy only, no torch, no JAX."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np


def _uniform(text: str, shape: tuple[int, ...]) -> np.ndarray:
  """Numbers in [-1, 1) from a hash of the text."""
  key = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")
  return np.random.Generator(np.random.Philox(key=key)).random(shape, np.float32) * 2 - 1


def draw(name: str, shape: tuple[int, ...], gain: float = 1.0) -> np.ndarray:
  """The weight called `name` in PyTorch, in PyTorch's layout; activations keep their size from layer to layer.

  `gain` multiplies the matrices, for networks whose activations would vanish or explode.
  """
  noise = _uniform(f"{name} {tuple(shape)}", tuple(shape))
  leaf, fan_in = name.rpartition(".")[-1], int(np.prod(shape[1:]))
  if leaf == "running_var":
    return 1 + 0.4 * noise
  if leaf in ("running_mean", "bias"):
    return 0.17 * noise
  if leaf in ("cls_token", "pos_embed"):
    return 0.5 * noise
  if fan_in == 1:  # Scales of normalization layers and of branches.
    return 0.8 + 0.3 * noise
  return (gain * np.sqrt(6 / fan_in) * noise).astype(np.float32)


def images(count: int, size: int) -> np.ndarray:
  """Normalized NHWC images: coarse colored patches, so that pooled features differ between images, and white noise."""
  patches = _uniform(f"patches {size}", (count, 4, 4, 3))
  places = np.arange(size) * 4 // size
  return 2 * patches[:, places][:, :, places] + 0.5 * _uniform(f"images {size}", (count, size, size, 3))


def names_hash(shapes: Mapping[str, tuple[int, ...]]) -> str:
  """A short hash over every name and shape of a state dict."""
  lines = "\n".join(f"{name} {tuple(shape)}" for name, shape in sorted(shapes.items()))
  return hashlib.blake2b(lines.encode(), digest_size=8).hexdigest()
