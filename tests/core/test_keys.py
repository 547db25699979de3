"""Keys of work items."""

import pytest

from jaxrobust.core.errors import InputError
from jaxrobust.core.keys import LARGEST_SEED, item_key_data

pytestmark = pytest.mark.smoke


def test_a_seed_that_does_not_fit_is_refused_and_the_largest_is_a_key():
  assert item_key_data(LARGEST_SEED, 0, 0, 0).shape == (2,)
  for seed in (-1, LARGEST_SEED + 1, 10**20):
    with pytest.raises(InputError, match=f"the seed must be at least 0 and below 2\\*\\*63, got {seed}"):
      item_key_data(seed, 0, 0, 0)
