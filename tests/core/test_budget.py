"""A budget is kept exactly as written, bad ones are refused by name, and one tolerance decides what is inside."""

from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.core.budget import Budget, check_norm, inside
from jaxrobust.core.errors import InputError, UnknownNameError

pytestmark = pytest.mark.smoke


@pytest.mark.parametrize(
  ("given", "text", "value"),
  [
    ("8/255", "8/255", 8 / 255),
    (" 8 / 255 ", "8/255", 8 / 255),
    ("0.5/255", "0.5/255", 0.5 / 255),
    ("0.031", "0.031", 0.031),
    ("1e-3", "1e-3", 0.001),
    (0, "0", 0.0),
    (3, "3", 3.0),
    (0.5, "0.5", 0.5),
    (8 / 255, "8/255", 8 / 255),
    (0.25 / 255, "0.25/255", 0.25 / 255),
    (np.nextafter(8 / 255, 1), repr(float(np.nextafter(8 / 255, 1))), np.nextafter(8 / 255, 1)),
    (51 / 255, "0.2", 0.2),
    (1e11 / 3, repr(1e11 / 3), 1e11 / 3),
    (Fraction(8, 255), "8/255", 8 / 255),
    (Fraction(2), "2", 2.0),
    (np.float64(0.1), "0.1", 0.1),
    (np.float32(0.25), "0.25", 0.25),
    (np.float32(0.1), repr(float(np.float32(0.1))), float(np.float32(0.1))),
  ],
)
def test_budget_keeps_its_text_and_reads_back_as_the_nearest_float(given, text, value):
  budget = Budget.parse(given)
  assert budget.text == text
  assert budget.value == value
  assert Budget.parse(budget) is budget and Budget.parse(budget.text) == budget


def test_budgets_that_papers_mix_up_stay_different():
  assert Budget.parse("8/255") != Budget.parse("0.031")
  assert Budget.parse("8/255").value != Budget.parse("0.031").value
  assert Budget.parse("0.5/255").value == pytest.approx(0.00196078, rel=1e-5)


@pytest.mark.parametrize("text", ["", "eps", "8/255/2", "8/0", "/255", "nan", "inf", "8:255", "0x8", "1,5"])
def test_text_that_is_no_size_is_refused(text):
  with pytest.raises(InputError, match="is not a number or a fraction such as 8/255") as error:
    Budget.parse(text)
  assert "\n" not in str(error.value)


@pytest.mark.parametrize("thing", [None, [0.1], {"eps": 1}, True])
def test_things_that_are_no_number_are_refused(thing):
  with pytest.raises(InputError, match="is not a number or a fraction"):
    Budget.parse(thing)


@pytest.mark.parametrize("eps", [-1, -0.5, "-8/255", "8/-255", Fraction(-1, 3), np.float32(-1)])
def test_negative_budgets_are_refused(eps):
  with pytest.raises(InputError, match="is negative; a budget is at least 0"):
    Budget.parse(eps)


@pytest.mark.parametrize("eps", [float("nan"), float("inf"), -float("inf"), np.float32("nan"), np.inf])
def test_budgets_that_are_not_finite_are_refused(eps):
  with pytest.raises(InputError, match="is not a finite number"):
    Budget.parse(eps)


def test_a_budget_beyond_every_float_is_refused():
  with pytest.raises(InputError):
    _ = Budget.parse("1e999").value


PIXELS = np.concatenate([np.arange(256) / 255, np.random.default_rng(0).uniform(0, 1, 5000), [0.0, 1.0]]).astype("f4")


@pytest.mark.parametrize("eps", ["8/255", "0.5/255", "0.3", "1/3"])
def test_a_float32_step_of_eps_is_inside_for_every_pixel_value(eps):
  budget = Budget.parse(eps).value
  for sign in (-1, 1):
    moved = (PIXELS + np.float32(sign * budget)).astype(np.float32)
    distance = np.abs(moved - PIXELS)
    assert distance.dtype == np.float32 and inside(distance, budget).all()
    assert inside(distance, np.float32(budget)).all()
    # Some of these steps are longer than eps by rounding alone: without a tolerance they would count as violations.
    assert (distance.astype(np.float64) > budget).any()


@pytest.mark.parametrize("eps", [8 / 255, 0.5 / 255, 0.5, 10.0])
def test_the_tolerance_is_smaller_than_any_real_violation(eps):
  assert inside(eps, eps) and inside(0.0, 0.0)
  assert not inside(eps * 1.0001 + 2e-7, eps)
  assert not inside(eps + 0.1 / 255, eps)
  assert not inside(float("nan"), eps) and not inside(float("inf"), eps)


def test_inside_takes_numpy_and_jax_arrays():
  distance, eps = np.array([0.1, 0.2, 0.3], np.float32), np.array([0.2, 0.2, 0.2], np.float32)
  np.testing.assert_array_equal(inside(distance, eps), [True, True, False])
  np.testing.assert_array_equal(inside(jnp.asarray(distance), jnp.asarray(eps)), [True, True, False])


def test_norms_are_checked_by_name():
  assert [check_norm(norm) for norm in ("l1", "l2", "linf")] == ["l1", "l2", "linf"]
  with pytest.raises(UnknownNameError, match="unknown norm 'linff'; did you mean 'linf'"):
    check_norm("linff")
  with pytest.raises(UnknownNameError, match=r"unknown norm 'l1'.*l2"):
    check_norm("l1", ("l2",))


@pytest.mark.timeout(10)
@pytest.mark.parametrize("text", ["1e999999999", "1e-999999999", "8e99999/255", "8/1e99999", "9" * 100_000])
def test_a_few_characters_cannot_take_for_ever(text):
  with pytest.raises(InputError, match="is not a number or a fraction") as error:
    Budget.parse(text)
  assert len(str(error.value)) < 200


@pytest.mark.parametrize(("eps", "hint"), [(8, "did you mean 8/255"), ("8", "8/255"), (16.0, "16.0/255"), ("300", "$")])
def test_whole_levels_in_linf_are_refused_with_what_was_meant(eps, hint):
  with pytest.raises(InputError, match=f"is more than 1, the largest linf distance of images.*{hint}"):
    Budget.parse(eps, "linf")
  assert Budget.parse(eps).value == Budget.parse(eps, "l2").value == float(eps)
  assert Budget.parse(1, "linf").value == 1
