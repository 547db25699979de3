"""Random keys that belong to an example, not to a batch, a device or a clock.

The key of a work item is a hash of (seed, example id, stage, restart) alone, so the noise example i gets is
the same for any batch size, shard count, order or resume point. It is made on the host: three `fold_in`s
inside every program would cost more to compile than most attacks' own code.

Example:
  >>> a, b = (item_key_data(0, example, stage=1, restart=0) for example in (7, 8))
  >>> a.shape, bool((a == b).all())
  ((2,), False)
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from numbers import Integral

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.core.validation import is_number

# Stages of attacks are smaller numbers; these mark what is drawn for measures of an image, the choice of other images,
# and the model's own randomness outside attacks.
MEASURE_STAGE = 0x7FFFFFFC
OTHERS_STAGE = 0x7FFFFFFD
CLEAN_STAGE = 0x7FFFFFFE
VERIFY_STAGE = 0x7FFFFFFF


LARGEST_SEED = 2**63 - 1
_WORDS = struct.Struct("<4q")


def check_seed(seed: int) -> None:
  """Raises InputError for what no key and no cell could hold."""
  # NumPy's integers are as good as Python's.
  if not is_number(seed, Integral):
    raise InputError(f"the seed must be an integer, got {seed!r}")
  if not 0 <= seed <= LARGEST_SEED:
    raise InputError(f"the seed must be at least 0 and below 2**63, got {seed}")


def item_key_data(seed: int, example: int, stage: int, restart: int) -> np.ndarray:
  """Returns the two words that `jax.random.wrap_key_data` turns into the key of one work item."""
  return item_keys(seed, [(example, stage, restart)])[0]


def item_keys(seed: int, items: Iterable[tuple[int, int, int]]) -> np.ndarray:
  """Returns the words of many work items, each (example, stage, restart), in rows."""
  check_seed(seed)
  digests = [hashlib.blake2b(_WORDS.pack(seed, *item), digest_size=8).digest() for item in items]
  return np.frombuffer(b"".join(digests), "<u4").reshape(-1, 2).astype(np.uint32)
