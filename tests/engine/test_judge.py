"""What is known of unperturbed images is judged on the host as the devices would."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxrobust.attacks.losses import margin
from jaxrobust.engine.judge import judge_logits
from jaxrobust.engine.success import goal_met


@pytest.mark.parametrize("targeted", [False, True])
def test_known_logits_are_judged_as_on_a_device_and_without_one(targeted):
  rng = np.random.default_rng(0)
  logits = (10 * rng.normal(size=(64, 5))).astype(np.float32)
  logits[3, 2], logits[4, 1], logits[5] = np.nan, np.inf, 1.0
  logits[6, :2] = 7.0, 7.0 * (1 + 2e-6)
  labels, targets = rng.integers(0, 5, 64), rng.integers(0, 5, 64)
  labels[6] = 0
  goals = np.where(targeted, targets, -1)
  margins = np.asarray(jax.vmap(margin)(logits, labels, goals))
  met = np.asarray(jax.vmap(lambda z, y, t: goal_met(z, y, t, targeted))(logits, labels, targets))
  judged = judge_logits(logits, labels, targets, targeted)
  assert all(isinstance(part, np.ndarray) for part in judged)
  finite = np.isfinite(logits).all(1)
  np.testing.assert_array_equal(judged.margin[finite], margins[finite])
  np.testing.assert_array_equal(judged.met, met)
  np.testing.assert_array_equal(judged.nan, ~finite)
