"""EAD: shrinkage by hand, sparsity and distance on a linear classifier, and foolbox."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.attacks.ead import EAD, shrink
from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.engine.api import attack_images
from tests import realdata
from tests.attacks import minimal_distance as md


def test_shrinkage():
  np.testing.assert_allclose(shrink(jnp.array([0.5, -0.5, 0.1, -0.1]), 0.2), [0.3, -0.3, 0.0, 0.0], atol=1e-7)


def test_close_to_the_closed_form_minimum_and_sparse():
  attack = EAD(steps=300)
  excess = md.excess(attack)
  assert excess.min() > -1e-3 and excess.max() < 0.15
  images, labels = md.gray()
  result = attack_images(attack, md.linear(), images, labels, options=md.slots(12))
  moved = (result.images != images).reshape(len(images), -1).sum(1)
  assert np.median(moved) <= 12


@pytest.mark.parametrize("gain", [1e-30, 1e30])
def test_extreme_gradients_leave_images_finite(gain):
  images, labels = md.gray()
  result = attack_images(EAD(steps=60), md.linear(gain), images, labels, options=md.slots(12))
  assert np.isfinite(result.images).all() and not result.nan.any()


def test_layouts_programs_and_targets():
  attack = EAD(steps=60)
  assert md.check_layouts(attack).queries.max() <= attack.num_steps
  md.check_targeted(attack)


def test_refuses_what_it_cannot_do():
  with pytest.raises(UnknownNameError):
    EAD(norm="l2")
  with pytest.raises(InputError, match="search round"):
    EAD(binary_search_steps=0)


@realdata.needs_data
@pytest.mark.slow
def test_closer_than_foolbox_with_its_parameters():
  # With so few steps foolbox fools less than half of the images, and others only by its all-black answer.
  ours, theirs = md.compare(EAD(binary_search_steps=5, steps=200), "foolbox-torch/ead_en", 60)
  found = np.isfinite(theirs)
  # Ours misses one, which a sixth round finds.
  assert found.mean() < 0.6 and np.isinf(ours).sum() <= 1
  assert np.median(ours[found]) <= np.median(theirs[found]) and np.mean(ours[found] <= 1.01 * theirs[found]) > 0.95
