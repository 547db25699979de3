"""The draws that `make_transfer_points.py` gives to torchattacks, and the tests to our attacks."""

from __future__ import annotations

import numpy as np

STEPS, SIDE = 5, 8
# Height, top and left of a smaller image at each step.
PLACEMENTS = ((5, 1, 2), (7, 0, 1), (4, 3, 0), (6, 2, 1), (5, 3, 3))


def neighbor(step: int, number: int) -> np.ndarray:
  """Returns an offset in [-1, 1] for every value of an image, channels first, from a formula that scatters them."""
  index = np.arange(3 * SIDE * SIDE)
  waves = np.sin(12.9898 * index + 78.233 * step + 37.719 * number) * 43758.5453
  return (2.0 * (waves - np.floor(waves)) - 1.0).astype(np.float32)
