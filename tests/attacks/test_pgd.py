"""FGSM, BIM, PGD and MIM: by hand on linear models, and per example against other implementations."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.attacks.mim import MIM
from jaxrobust.attacks.pgd import BIM, FGSM, PGD
from jaxrobust.attacks.registry import attack_id, make_attack
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.engine.api import attack_images
from jaxrobust.engine.options import EngineOptions
from jaxrobust.testing import examples, fixture
from jaxrobust.training.techniques.adversarial import craft
from tests import realdata

NORMS = ("l1", "l2", "linf")
SHAPE = (3, 4, 2)
DUAL = {"l1": np.inf, "l2": 2, "linf": 1}
WEIGHTS = np.random.default_rng(0).normal(size=(24, 2)).astype(np.float32)
WEIGHTS -= WEIGHTS.mean(0)  # Gray images then lie near the decision boundary.
DIRECTION = (WEIGHTS[:, 1] - WEIGHTS[:, 0]).astype(np.float64)
LINEAR = Classifier.from_function(
  lambda w, x: x.reshape(len(x), -1) @ w, num_classes=2, variables=jnp.asarray(WEIGHTS), input_shape=SHAPE
)


def margins(images):
  """How far class 1 is ahead of class 0, in float64."""
  return images.reshape(len(images), -1).astype(np.float64) @ DIRECTION


@functools.partial(jax.jit, static_argnums=0)
def final_points(attack, images, eps):
  wanted = jax.nn.one_hot(jnp.zeros(len(images), jnp.int32), 2)
  return craft(attack, LINEAR, images, wanted, eps, jax.random.split(jax.random.key(0), len(images)))


def gray(count=6):
  # Far enough from the box that no budget below meets it, step included.
  return np.random.default_rng(1).uniform(0.45, 0.55, (count, *SHAPE)).astype(np.float32)


def test_fgsm_is_one_signed_step_clipped_into_the_box():
  images = np.random.default_rng(2).uniform(0, 1, (8, *SHAPE)).astype(np.float32)
  wanted = np.clip(images + np.float32(0.3) * np.sign(DIRECTION).reshape(SHAPE), 0, 1)
  np.testing.assert_allclose(final_points(FGSM(), images, 0.3), wanted, atol=1e-6)
  # The engine's answer is the same point wherever it is a success.
  labels = (margins(images) > 0).astype(int)
  result = attack_images(FGSM(), LINEAR, images, labels, eps=0.1, options=EngineOptions.for_platform(8, shrink=False))
  signs = np.where(labels == 0, 1, -1)[:, None, None, None] * np.sign(DIRECTION).reshape(SHAPE)
  wanted = np.clip(images + np.float32(0.1) * signs, 0, 1)
  assert result.success.sum() >= 3 and result.correct.all()
  np.testing.assert_allclose(result.images[result.success], wanted[result.success], atol=1e-6)
  np.testing.assert_array_equal(result.images[~result.success], images[~result.success])


ATTACKS = {
  "bim": lambda norm: BIM(norm, num_steps=5),
  "pgd": lambda norm: PGD(norm, num_steps=30, step_size=0.5),
  "mim": lambda norm: MIM(norm, num_steps=5),
}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ATTACKS)
def test_on_a_linear_classifier_the_margin_moves_by_eps_times_the_dual_norm(name, norm):
  eps, images = 0.2, gray()
  found = np.asarray(final_points(ATTACKS[name](norm), images, eps))
  wanted = eps * np.linalg.norm(DIRECTION, DUAL[norm])
  np.testing.assert_allclose(margins(found) - margins(images), wanted, rtol=2e-3)


@pytest.mark.parametrize(
  ("attack", "eps"), [(BIM("linf", num_steps=5), 0.005), (BIM("l1", num_steps=5), 0.05), (MIM("l2", num_steps=5), 0.02)]
)
def test_targeted_attacks_reach_their_class_exactly_where_the_dual_norm_says_so(attack, eps):
  images = gray(40)
  labels = (margins(images) > 0).astype(int)
  gap, reach = np.abs(margins(images)), eps * np.linalg.norm(DIRECTION, DUAL[attack.norm])
  options = EngineOptions.for_platform(20, shrink=False)
  result = attack_images(attack, LINEAR, images, labels, eps=eps, targets=1 - labels, options=options)
  assert result.success[gap < 0.99 * reach].all() and not result.success[gap > 1.01 * reach].any()
  assert 0.2 < result.success.mean() < 0.8
  np.testing.assert_array_equal(margins(result.images)[result.success] > 0, labels[result.success] == 0)


@pytest.mark.parametrize("name", ["bim", "mim"])
def test_a_zero_gradient_leaves_the_image_where_it_is(name):
  images, _ = examples(fixture(), 4)
  wanted, keys = jax.nn.one_hot(jnp.zeros(4, jnp.int32), 5), jax.random.split(jax.random.key(0), 4)
  step = jax.jit(lambda c, x: craft(make_attack(name, num_steps=3), c, x, wanted, 0.1, keys))
  np.testing.assert_array_equal(step(fixture("flat"), images), images)


def test_without_a_budget_correct_examples_stay_robust_also_in_l2():
  images, labels = examples(fixture(), 8)
  options = EngineOptions.for_platform(8, shrink=False)
  result = attack_images(PGD("l2", num_steps=3), fixture(), images, labels, eps=0, options=options)
  assert result.robust.all() and not result.success.any() and not result.nan.any()
  np.testing.assert_array_equal(result.images, images)


def scaled(factor, classes):
  classifier = fixture()
  weights = dict(classifier.variables)
  weights["second"], weights["bias"] = weights["second"][:, :classes] * factor, weights["bias"][:classes] * factor
  return Classifier.from_function(classifier.apply.function, classes, variables=weights)


def l2_flags(loss, factor, classes, eps):
  images, labels = examples(scaled(1.0, classes), 200)
  options = EngineOptions.for_platform(100, shrink=False)
  attack = PGD("l2", num_steps=10, loss=loss)
  return attack_images(attack, scaled(factor, classes), images, labels, eps=eps, options=options).success


# With more than two classes the scale is also a temperature, which changes what cross-entropy asks for.
@pytest.mark.parametrize(
  ("loss", "classes", "eps", "factors"),
  [
    ("margin", 5, 0.15, (1e-4, 1e-2, 1e2, 1e4)),
    ("ce", 2, 0.3, (1e-4, 1e-2, 5.0)),
  ],
)
def test_the_scale_of_the_logits_does_not_change_l2_pgd(loss, classes, eps, factors):
  base = l2_flags(loss, 1.0, classes, eps)
  assert 0.1 < base.mean() < 0.9
  for factor in factors:
    assert (l2_flags(loss, factor, classes, eps) == base).mean() > 0.99, factor


@pytest.mark.parametrize(
  ("attack", "steps", "step_size"),
  [(FGSM(), 1, 1.0), (BIM(num_steps=20), 20, 0.1), (PGD(num_steps=20), 20, 0.125), (MIM(), 10, 0.2)],
)
def test_default_steps_are_those_of_the_sources(attack, steps, step_size):
  assert (attack.num_steps, attack.step_size) == (steps, pytest.approx(step_size))
  assert hash(attack) == hash(type(attack)(**vars(attack)))


def test_ids_name_norm_attack_and_steps():
  assert [attack_id(make_attack(*a, **o)) for a, o in ((("bim",), {"norm": "l1"}), (("fgsm",), {}))] == [
    "l1-bim-10",
    "linf-fgsm",
  ]


@pytest.mark.parametrize("build", [PGD, BIM, MIM])
def test_no_steps_and_unknown_norms_are_refused(build):
  with pytest.raises(InputError, match="at least 1 step, got num_steps=-1"):
    build(num_steps=-1)
  with pytest.raises(UnknownNameError, match="unknown norm 'l3'; did you mean"):
    build(norm="l3")


def test_unknown_attacks_and_parameters_get_the_nearest_names():
  with pytest.raises(UnknownNameError, match="unknown attack 'pgdd'; did you mean 'pgd'"):
    make_attack("pgdd")
  with pytest.raises(
    UnknownNameError, match=r"unknown parameter of attack 'pgd' 'num_step'; did you mean .*'num_steps'"
  ):
    make_attack("pgd", num_step=5)


COUNT = 300


@realdata.needs_data
@pytest.mark.data
@pytest.mark.parametrize(
  ("peer", "attack", "eps", "agreement"),
  [
    ("torchattacks/fgsm_linf", FGSM(), "0.1", 1.0),
    ("foolbox-torch/fgsm_linf", FGSM(), "0.1", 1.0),
    ("cleverhans-torch/fgm_l2", FGSM("l2"), "1.5", 1.0),
    ("torchattacks/bim20_linf", BIM(num_steps=20, step_size=0.125), "0.1", 0.99),
    ("foolbox-torch/bim20_l2", BIM("l2", num_steps=20, step_size=0.125), "1.5", 0.99),
    ("torchattacks/mim20_linf", MIM(num_steps=20, step_size=0.1), "0.1", 0.99),
  ],
)
def test_flags_equal_those_of_other_implementations_per_example(peer, attack, eps, agreement):
  images, labels = realdata.fmnist_test(COUNT)
  wanted = realdata.reference_flags(peer)[:COUNT]
  options = EngineOptions.for_platform(100, shrink=False)
  result = attack_images(attack, realdata.fmnist_network(), images, labels, eps=eps, options=options)
  assert 0.3 < wanted.mean() < 0.8
  assert (result.robust == wanted).mean() >= agreement


@realdata.needs_data
@pytest.mark.data
def test_the_box_aware_l1_step_is_stronger_than_the_one_of_foolbox():
  images, labels = realdata.fmnist_test(100)
  options = EngineOptions.for_platform(100, shrink=False)
  attack = BIM("l1", num_steps=20, step_size=0.125)
  result = attack_images(attack, realdata.fmnist_network(), images, labels, eps="10", options=options)
  assert result.robust.mean() <= realdata.reference_flags("foolbox-torch/bim20_l1")[:100].mean() - 0.1
