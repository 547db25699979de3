"""Targets of targeted attacks: one wrong class per example, uniformly at random (ARES, arXiv:1912.11852)."""

from __future__ import annotations

import numpy as np

from jaxrobust.core.keys import item_key_data

# Beside the stages of attacks, which are hashes below 2**30.
TARGET_STAGE = 0x7FFFFFFD


def random_targets(seed: int, ids: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
  """A wrong class for each example, the same whatever the batch.

  >>> random_targets(0, np.arange(4), np.array([0, 1, 2, 0]), 3).tolist()
  [2, 2, 0, 2]
  """
  draws = np.array([item_key_data(seed, int(example), TARGET_STAGE, 0)[0] for example in ids], np.int64)
  return ((np.asarray(labels) + 1 + draws % (classes - 1)) % classes).astype(np.int32)
