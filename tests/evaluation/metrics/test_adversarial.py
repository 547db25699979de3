"""Attack metrics against plain counting."""

from __future__ import annotations

import numpy as np
import pytest

from jaxrobust.core.errors import InputError
from jaxrobust.evaluation.metrics import adversarial as metrics

pytestmark = pytest.mark.smoke


@pytest.fixture
def flags():
  rng = np.random.default_rng(1)
  correct = rng.random(200) < 0.8
  return correct, [correct & (rng.random(200) < share) for share in (0.9, 0.5, 0.7)]


def test_both_success_rates_and_ar(flags):
  correct, (robust, *_) = flags
  broken = sum(c and not r for c, r in zip(correct, robust, strict=True))
  assert metrics.attack_success_rate(correct, robust) == pytest.approx(broken / correct.sum())
  assert metrics.attack_success_rate(correct, robust, of_all=True) == pytest.approx(1 - robust.sum() / 200)
  assert metrics.adversarial_robustness(correct, robust) == pytest.approx(1 - broken / correct.sum())


def test_the_worst_case_is_pointwise_and_not_above_any_attack(flags):
  correct, attacks = flags
  standing = [all(attack[row] for attack in attacks) for row in range(200)]
  worst = metrics.worst_case_attack_robustness(correct, attacks)
  assert worst == pytest.approx(sum(standing) / correct.sum())
  assert worst < min(metrics.adversarial_robustness(correct, attack) for attack in attacks)


def test_nothing_right_is_not_robust_and_shapes_must_fit():
  no = np.zeros(3, bool)
  assert metrics.worst_case_attack_robustness(no, [no]) == 0
  with pytest.raises(InputError, match="one flag per example"):
    metrics.attack_success_rate(np.ones(3, bool), np.ones(2, bool))
  with pytest.raises(InputError, match="at least one attack"):
    metrics.worst_case([])
