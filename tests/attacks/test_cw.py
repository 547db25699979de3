"""Carlini-Wagner: the search for c by hand, the closed form on a linear classifier, foolbox and cleverhans."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.attacks import const_search
from jaxrobust.attacks.const_search import Rounds
from jaxrobust.attacks.cw import CW, CWL2, CWLinf, from_tanh_space, to_tanh_space
from jaxrobust.attacks.fmn import FMN
from jaxrobust.attacks.registry import make_attack
from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.engine.api import attack_images
from jaxrobust.testing import examples, fixture
from tests import realdata
from tests.attacks import minimal_distance as md
from tests.attacks.minimal_distance import compare

FOOLBOX, CLEVERHANS = "foolbox-torch/cw_l2_bs5_steps200", "cleverhans-torch/cw_l2"


def consts(rounds, works):
  """The values of c that are tried, one step per round, when c >= works is a success."""
  search, tried = const_search.start(1e-3), []
  while not const_search.finished(search, rounds) and search.total < rounds.total:
    tried.append(float(search.const))
    search, over = const_search.follow(search, search.const >= works, jnp.array(1.0), rounds)
    assert over
  return tried


def test_c_grows_tenfold_until_a_success_and_is_bisected_from_there():
  np.testing.assert_allclose(consts(Rounds(7, 1), 0.3), [0.001, 0.01, 0.1, 1.0, 0.55, 0.325, 0.2125], rtol=1e-5)


def test_the_last_of_ten_rounds_repeats_the_smallest_c_that_worked():
  tried = consts(Rounds(10, 1), 0.3)
  assert tried[-1] == min(c for c in tried if c >= 0.3)


def lengths(rounds, loss, success):
  """How many steps each round takes, where both are functions of the round and the step."""
  search, ends = const_search.start(1.0), [0]
  for k in range(rounds.total):
    search, over = const_search.follow(search, success(search.round, k), jnp.float32(loss(search.round, k)), rounds)
    ends += [k + 1] if over else []
  return np.diff(ends).tolist(), bool(const_search.finished(search, rounds))


def test_a_round_ends_when_its_loss_stops_falling_and_leaves_its_steps_to_later_ones():
  # The first round stalls at once, the second falls for ever.
  told = lengths(Rounds(2, 20), lambda at, k: jnp.where(at == 1, 100.0 - k, 5.0), lambda at, k: jnp.array(True))
  assert told == ([3, 37], True)


def test_a_patient_round_with_a_success_takes_all_its_steps():
  rounds, stands = Rounds(2, 20, patient=True), lambda at, k: 5.0
  assert lengths(rounds, stands, lambda at, k: jnp.array(True)) == ([20, 20], True)
  # A success that comes too late for the first round counts for the second.
  assert lengths(rounds, stands, lambda at, k: jnp.array(k == 4)) == ([3, 37], True)


def test_without_a_success_the_search_goes_on_while_steps_are_left():
  rounds, search = Rounds(2, 20), const_search.start(1.0)
  for _ in range(40):
    search, _over = const_search.follow(search, jnp.array(False), jnp.array(5.0), rounds)
  assert not bool(const_search.finished(search, rounds)) and float(search.const) > 1e9


def test_tanh_space_is_the_box():
  image = jnp.array([0.0, 0.25, 1.0])
  assert np.isfinite(to_tanh_space(image)).all()
  np.testing.assert_allclose(from_tanh_space(to_tanh_space(image)), image, atol=1e-6)
  assert from_tanh_space(jnp.array([-1e9, 1e9])).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("warm_start", [True, False])
def test_l2_finds_the_closed_form_minimum(warm_start):
  excess = md.excess(CWL2(steps=200, warm_start=warm_start))
  assert excess.min() > -1e-3 and excess.max() < 0.01


@pytest.mark.parametrize(("warm_start", "farther"), [(False, 1.001), (True, 1.05)])
def test_ending_rounds_early_leaves_no_image_much_farther_away(warm_start, farther):
  classifier = fixture()
  images, labels = examples(classifier)
  distances = [
    attack_images(
      CWL2(binary_search_steps=4, steps=100, initial_const=0.1, warm_start=warm_start, abort_early=early),
      classifier,
      images,
      labels,
      options=md.slots(16),
    ).distance
    for early in (True, False)
  ]
  assert np.isfinite(distances[1]).all() and (distances[0] <= farther * distances[1]).all()


@pytest.mark.parametrize("gain", [1e-30, 1.0, 1e30])
def test_linf_finds_the_closed_form_minimum_at_any_scale_of_logits(gain):
  excess = md.excess(CWLinf(), gain)
  assert excess.min() > -1e-3 and excess.max() < 0.01


@pytest.mark.parametrize("gain", [1e-30, 1e30])
def test_extreme_gradients_leave_images_finite(gain):
  images, labels = md.gray()
  result = attack_images(CWL2(steps=60), md.linear(gain), images, labels, options=md.slots(12))
  assert np.isfinite(result.images).all() and not result.nan.any()


@pytest.mark.parametrize("attack", [CWL2(steps=40), CWLinf(binary_search_steps=10)], ids=["l2", "linf"])
def test_layouts_programs_and_targets(attack):
  result = md.check_layouts(attack)
  # Images leave as soon as their search is over.
  assert result.queries.max() <= attack.num_steps and result.queries.mean() < 0.95 * attack.num_steps
  md.check_targeted(attack)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_confidence_is_a_margin_of_the_result(norm):
  classifier = fixture()
  images, labels = examples(classifier)
  attack = CW(norm, confidence=1.0, num_steps=60)
  result = attack_images(attack, classifier, images, labels, options=md.slots(16))
  logits = np.sort(np.asarray(classifier(jnp.asarray(result.images))), axis=1)
  assert result.success.all() and (logits[:, -1] - logits[:, -2]).min() > 0.99
  targets = (labels + 2) % 5
  aimed = attack_images(attack, classifier, images, labels, targets=targets, options=md.slots(16))
  logits = np.asarray(classifier(jnp.asarray(aimed.images)))
  margin = logits[np.arange(16), targets] - np.max(np.where(np.arange(5) == targets[:, None], -np.inf, logits), axis=1)
  assert aimed.success.mean() > 0.8 and margin[aimed.success].min() > 0.99


def test_names_and_parameters():
  assert isinstance(make_attack("cw"), CWL2) and isinstance(make_attack("cw", norm="linf"), CWLinf)
  assert make_attack("cw", steps=10, binary_search_steps=3, warm_start=False).num_steps == 30
  with pytest.raises(UnknownNameError, match="warm_start"):
    CW("linf", warm_start=True)
  with pytest.raises(UnknownNameError):
    CW("l1")
  with pytest.raises(InputError, match="1 step"):
    CW(num_steps=0)


@realdata.needs_data
@pytest.mark.slow
def test_l2_is_as_close_as_the_best_peer_with_as_many_steps():
  small = CWL2(binary_search_steps=5, steps=200)
  ours, foolbox = compare(small, FOOLBOX, 200)
  _, cleverhans = compare(small, CLEVERHANS, 200)
  assert np.isfinite(ours).all() and np.isfinite(foolbox).mean() < 0.7 and np.isfinite(cleverhans).mean() < 0.96
  for theirs in (foolbox, cleverhans):
    found = np.isfinite(theirs)
    assert np.median(ours) <= 1.01 * np.median(theirs)
    assert np.median(ours[found]) <= 1.01 * np.median(theirs[found])


@realdata.needs_data
@pytest.mark.slow
def test_l2_starting_over_is_no_worse_than_foolbox_image_by_image():
  same = CWL2(binary_search_steps=5, steps=200, abort_early=False, warm_start=False)
  ours, theirs = compare(same, FOOLBOX, 50)
  found = np.isfinite(theirs)
  assert np.isfinite(ours[found]).all()
  assert np.mean(ours[found] <= 1.01 * theirs[found]) > 0.95


@realdata.needs_data
@pytest.mark.slow
def test_linf_is_closer_than_the_best_peer():
  ours, theirs = compare(CWLinf(binary_search_steps=10), "foolbox-torch/fmn100_linf", 60)
  assert np.isfinite(ours).all() and np.median(ours) < np.median(theirs)
  long, _ = compare(FMN("linf", num_steps=300), "foolbox-torch/fmn100_linf", 60)
  assert np.median(ours) <= 1.05 * np.median(long)
