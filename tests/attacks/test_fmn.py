"""FMN: the closed form on a linear classifier in every norm, and per example against foolbox."""

import numpy as np
import pytest

from jaxrobust.attacks.fmn import FMN
from jaxrobust.core.errors import InputError, UnknownNameError
from tests import realdata
from tests.attacks import minimal_distance as md
from tests.attacks.minimal_distance import compare

NORMS = ("l1", "l2", "linf")


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("gain", [1e-30, 1.0, 1e30])
def test_finds_the_closed_form_minimum_at_any_scale_of_logits(norm, gain):
  excess = md.excess(FMN(norm), gain)
  assert excess.min() > -1e-3 and excess.max() < 0.03


@pytest.mark.parametrize("norm", NORMS)
def test_layouts_and_programs(norm):
  md.check_layouts(FMN(norm, num_steps=40))


@pytest.mark.parametrize("norm", NORMS)
def test_targeted(norm):
  md.check_targeted(FMN(norm, num_steps=60))


def test_final_step_size_follows_the_first():
  assert FMN().final_step_size == 0.01 and FMN(step_size=10.0).final_step_size == 0.1
  assert FMN(final_step_size=0.5).final_step_size == 0.5


def test_refuses_what_it_cannot_do():
  with pytest.raises(UnknownNameError):
    FMN(norm="l0")
  with pytest.raises(InputError):
    FMN(num_steps=0)


@realdata.needs_data
@pytest.mark.slow
def test_linf_parity_with_foolbox():
  ours, theirs = compare(FMN("linf"), "foolbox-torch/fmn100_linf", 100)
  assert np.median(ours) <= 1.01 * np.median(theirs) and ours.mean() <= 1.01 * theirs.mean()
  # Ours widens the ball until the first success (see the docstring), so single images differ both ways: on all
  # 500, 91 % are equal to 1 %, 6 % are closer and 4 % are farther.
  assert np.mean(ours <= 1.01 * theirs) > 0.9 and np.mean(np.abs(ours / theirs - 1) < 0.01) > 0.8


@realdata.needs_data
@pytest.mark.slow
def test_l2_is_closer_than_foolbox_whose_projection_does_nothing():
  ours, theirs = compare(FMN("l2"), "foolbox-torch/fmn100_l2", 100)
  assert np.isfinite(ours).all()
  assert np.median(ours) < 0.7 * np.median(theirs) and np.mean(ours <= 1.01 * theirs) > 0.99
  # The best l2 peer with as many steps is DDN.
  _, ddn = compare(FMN("l2"), "foolbox-torch/ddn100_l2", 100)
  assert np.median(ours) <= 1.01 * np.median(ddn)


@realdata.needs_data
@pytest.mark.slow
def test_l1_is_closer_than_foolbox_and_never_fails():
  ours, theirs = compare(FMN("l1"), "foolbox-torch/fmn100_l1", 100)
  found = np.isfinite(theirs)
  assert np.isfinite(ours).all() and found.mean() < 0.95
  assert np.median(ours) <= 1.01 * np.median(theirs)
  assert np.median(ours[found]) <= 1.01 * np.median(theirs[found])
