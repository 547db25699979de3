"""Small networks with weights drawn by NumPy: the same ones here and where the reference numbers are made."""

from __future__ import annotations

import numpy as np

SIDE, CLASSES = 16, 4
# Stride, padding, pooling before, seen.
CHAIN = ((2, 1, 0, True), (1, 1, 2, True), (1, 1, 0, False), (1, 1, 0, True))
WIDTHS = (8, 12, 12, 10)


def layers(seed: int, chain: tuple = CHAIN, widths: tuple = WIDTHS) -> list[dict[str, np.ndarray]]:
  rng = np.random.default_rng(seed)
  made, channels = [], 3
  for _, width in zip(chain, widths, strict=True):
    kernel = rng.normal(size=(3, 3, channels, width)) * np.sqrt(2 / (9 * channels))
    made.append({"kernel": kernel.astype(np.float32), "bias": (0.1 * rng.normal(size=width)).astype(np.float32)})
    channels = width
  return made


VGG16_WIDTHS = (4, 4, 8, 8, 16, 16, 16, 32, 32, 32, 32, 32, 32)


def vgg16_layers() -> list[dict[str, np.ndarray]]:
  """The thirteen convolutions of VGG-16, a sixteenth as wide."""
  return layers(6, VGG16_WIDTHS, VGG16_WIDTHS)


def head(seed: int) -> np.ndarray:
  return np.random.default_rng(seed).normal(size=(WIDTHS[-1], CLASSES)).astype(np.float32)


def pictures(count: int, seed: int = 0, side: int = SIDE) -> np.ndarray:
  """Smooth pictures away from black and white: sums of a few waves."""
  rng = np.random.default_rng(seed)
  y, x = np.mgrid[:side, :side] / side
  waves = rng.normal(size=(count, 3, 4)) * 0.12
  turns = rng.uniform(0.5, 2.0, size=(count, 3, 4, 2)) * 2 * np.pi
  shifts = rng.uniform(0, 2 * np.pi, size=(count, 3, 4))
  angles = turns[..., 0, None, None] * x + turns[..., 1, None, None] * y + shifts[..., None, None]
  images = 0.5 + (waves[..., None, None] * np.sin(angles)).sum(2)
  return np.clip(images, 0.06, 0.94).transpose(0, 2, 3, 1).astype(np.float32)


def offset(shape: tuple[int, ...], bound: float, seed: int = 5) -> np.ndarray:
  """A rough field within 0.6 of a bound: without it, what is sought first is decided by rounding alone."""
  return (bound * np.random.default_rng(seed).uniform(-0.6, 0.6, shape)).astype(np.float32)


# A bound that `far` images are a little outside of: one of Newton's steps brings them back.
BOUND = 0.9


def far(images: np.ndarray) -> np.ndarray:
  return np.clip(images + 0.12 * np.random.default_rng(11).normal(size=images.shape), 0, 1).astype(np.float32)


def noise(count: int, side: int = SIDE) -> np.ndarray:
  return (0.01 * np.random.default_rng(9).normal(size=(count, side, side, 3))).astype(np.float32)
