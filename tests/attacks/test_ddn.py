"""DDN: the closed form on a linear classifier, and per example against foolbox."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.attacks.ddn import DDN, cosine, direction
from jaxrobust.core.errors import UnknownNameError
from tests import realdata
from tests.attacks import minimal_distance as md


@pytest.mark.parametrize("gain", [1e-30, 1.0, 10.0])
def test_finds_the_closed_form_minimum_at_any_scale_of_logits(gain):
  excess = md.excess(DDN(), gain)
  assert excess.min() > -1e-3 and excess.max() < 0.01


def test_layouts_and_programs():
  md.check_layouts(DDN(num_steps=40))


def test_targeted():
  md.check_targeted(DDN(num_steps=40))


def test_more_steps_come_closer():
  few, many = md.excess(DDN(num_steps=20)), md.excess(DDN(num_steps=200))
  assert many.mean() < few.mean()


def test_schedule_and_spare_direction():
  assert float(cosine(1.0, 0.01, 0, 100)) == 1.0
  np.testing.assert_allclose(cosine(1.0, 0.01, 50, 100), 0.505, rtol=1e-5)
  noise = jnp.array([0.6, 0.8])
  np.testing.assert_array_equal(direction(jnp.zeros(2), noise), noise)
  np.testing.assert_allclose(direction(jnp.array([3e-30, 4e-30]), noise), [0.6, 0.8], rtol=1e-6)


def test_refuses_other_norms():
  with pytest.raises(UnknownNameError, match="l2"):
    DDN(norm="linf")


@realdata.needs_data
@pytest.mark.slow
def test_parity_with_foolbox():
  ours, theirs = md.compare(DDN(), "foolbox-torch/ddn100_l2", 100)
  assert np.isfinite(ours).all()
  np.testing.assert_allclose(np.median(ours), np.median(theirs), rtol=1e-3)
  # A success that rounding turns into a failure, or the reverse, changes the rest of that image's way: on all
  # 500 images 0.7 % differ by more than 1e-3, the most by 0.5 %.
  assert np.mean(np.abs(ours / theirs - 1) < 1e-3) > 0.97 and np.abs(ours / theirs - 1).max() < 0.01
