"""Targets are refused as labels are (labels and images: tests/data/test_source.py)."""

import numpy as np
import pytest

from jaxrobust.core.errors import InputError
from jaxrobust.core.validation import check_targets

pytestmark = pytest.mark.smoke


@pytest.mark.parametrize(
  ("targets", "reason"),
  [
    (np.array([0, 1]), "3 images but 2 targets"),
    (np.array([0, 1, 4]), "targets range from 0 to 4; expected 0 to 3"),
    (np.array([-1, 1, 2]), "targets range from -1 to 2; expected 0 to 3"),
    (np.array([0.0, 1.0, 2.0]), "targets are float64; expected integers"),
    (np.eye(3, 4), r"targets have the shape \(3, 4\).*one-hot"),
    (2, r"targets have the shape \(\)"),
  ],
)
def test_bad_targets_are_refused_in_one_line(targets, reason):
  with pytest.raises(InputError, match=reason) as error:
    check_targets(targets, 3, 4)
  assert "\n" not in str(error.value)


@pytest.mark.parametrize("targets", [None, np.array([0, 3, 1]), [1, 1, 1], np.array([0, 3, 1], np.uint8)])
def test_good_targets_and_none_at_all_pass(targets):
  check_targets(targets, 3, 4)
