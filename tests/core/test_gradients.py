"""Loss and gradient at a point: expectation over transformation, health flags, BPDA."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.gradients import ImageLogits, bpda, loss_and_grad

IMAGE = jnp.asarray(np.random.default_rng(0).uniform(0.1, 0.9, (2, 3, 1)), jnp.float32)
WEIGHTS = jnp.asarray(np.random.default_rng(1).normal(size=(6, 3)), jnp.float32)


def noisy(weights, images, key):
  # The noise goes through a non-linearity, so that the mean gradient is not the gradient at the mean.
  shifted = images.reshape(len(images), -1) + 0.5 * jax.random.normal(key, (6,))
  return jnp.tanh(2 * shifted) @ weights


def cross_entropy(logits):
  return -jax.nn.log_softmax(logits)[1]


RANDOMIZED = Classifier.from_function(noisy, 3, variables=WEIGHTS, randomized=True)
LINEAR = Classifier.from_function(lambda w, x: x.reshape(len(x), -1) @ w, 3, variables=WEIGHTS)


@pytest.mark.parametrize("samples", [1, 5])
def test_eot_is_the_mean_of_k_gradients_losses_and_logits(samples):
  key = jax.random.key(3)
  point = jax.jit(lambda x: loss_and_grad(ImageLogits(RANDOMIZED, key, samples), cross_entropy, x))(IMAGE)

  @jax.jit
  def one(x, sample_key):
    logits, back = jax.vjp(lambda x: noisy(WEIGHTS, x[None], sample_key)[0], x)
    loss, slope = jax.value_and_grad(cross_entropy)(logits)
    return loss, logits, back(slope)[0]

  drawn = jax.random.fold_in(jax.random.fold_in(key, 0), 0)  # The first call, without a number of its own.
  losses, logits, grads = zip(*(map(np.array, one(IMAGE, k)) for k in jax.random.split(drawn, samples)), strict=True)
  np.testing.assert_allclose(point.grad, np.mean(grads, 0), rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(point.loss, np.mean(losses), rtol=1e-5)
  np.testing.assert_allclose(point.probe.logits, np.mean(logits, 0), rtol=1e-5, atol=1e-6)
  if samples > 1:
    assert np.std(grads, 0).max() > 1e-3


def test_samples_of_a_key_are_fixed_and_those_of_another_differ():
  first, same, other = (ImageLogits(RANDOMIZED, jax.random.key(k), 3)(IMAGE) for k in (0, 0, 1))
  np.testing.assert_array_equal(first, same)
  assert not np.allclose(first, other)


def test_a_deterministic_classifier_is_evaluated_once_however_many_samples():
  assert ImageLogits(RANDOMIZED, jax.random.key(0), 7).sampled(IMAGE).shape == (7, 3)
  assert ImageLogits(LINEAR, jax.random.key(0), 7).sampled(IMAGE).shape == (1, 3)
  np.testing.assert_allclose(ImageLogits(LINEAR, jax.random.key(0), 7)(IMAGE), IMAGE.ravel() @ WEIGHTS, rtol=1e-5)


def test_any_plain_logits_function_will_do():
  point = loss_and_grad(lambda x: x.ravel() @ WEIGHTS, lambda z: z[0] - z[2], IMAGE)
  np.testing.assert_allclose(point.grad.ravel(), WEIGHTS[:, 0] - WEIGHTS[:, 2], rtol=1e-6)
  np.testing.assert_array_equal(point.probe.image, IMAGE)
  assert not point.probe.nan and not point.probe.flat and not point.probe.done


def root(x):
  # d sqrt(x) / dx is infinite at 0 and NaN below.
  return jnp.sum(jnp.sqrt(x)) * jnp.array([1.0, 0.0])


@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_entries_of_a_gradient_that_are_not_finite_become_zero_and_are_flagged(bad):
  image = IMAGE.at[0, 1, 0].set(bad)
  point = loss_and_grad(root, lambda z: z[0], image)
  expected = np.array(0.5 / jnp.sqrt(IMAGE)).ravel()
  expected[1] = 0
  np.testing.assert_allclose(point.grad.ravel(), expected, rtol=1e-5)
  assert point.probe.nan and not point.probe.flat


def test_a_loss_by_name_is_refused_with_what_makes_one_of_it():
  with pytest.raises(InputError, match=r"function of one image's logits, not 'ce': .*losses.bind\('ce', problem\)"):
    loss_and_grad(lambda x: x.ravel(), "ce", jnp.ones((1, 2, 1)))


def test_a_zero_gradient_is_flagged_as_flat_and_not_as_nan():
  point = loss_and_grad(lambda x: jnp.round(x).ravel(), lambda z: z[0], IMAGE)
  assert point.probe.flat and not point.probe.nan and not point.grad.any()


def test_under_vmap_one_bad_image_leaves_the_others_alone():
  images = jnp.stack([IMAGE, IMAGE.at[0, 0, 0].set(-1.0), IMAGE])
  point = jax.jit(jax.vmap(lambda x: loss_and_grad(root, lambda z: z[0], x)))(images)
  assert point.probe.nan.tolist() == [False, True, False]
  np.testing.assert_allclose(point.grad[0], 0.5 / jnp.sqrt(IMAGE), rtol=1e-5)
  np.testing.assert_array_equal(point.grad[0], point.grad[2])


TRANSFORMS = {"plain": lambda f: f, "jit": jax.jit, "vmap": jax.vmap, "jit-vmap": lambda f: jax.jit(jax.vmap(f))}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(
  ("backward", "slope"), [(None, lambda x: np.ones_like(x)), (jnp.square, lambda x: 2 * x), (jnp.tanh, None)]
)
def test_bpda_goes_forward_exactly_and_back_through_the_approximation(transform, backward, slope):
  quantized = bpda(lambda x: jnp.round(4 * x) / 4, *([] if backward is None else [backward]))
  x = np.array([0.1, 0.6, 0.9], np.float32)
  slope = slope or (lambda x: 1 - np.tanh(x) ** 2)
  one = jax.value_and_grad(lambda x: 3.0 * quantized(x))
  if "vmap" in transform:
    value, grad = TRANSFORMS[transform](one)(x)
  else:
    value, grad = map(np.array, zip(*(TRANSFORMS[transform](one)(v) for v in x), strict=True))
  np.testing.assert_array_equal(value, 3 * np.round(4 * x) / 4)
  np.testing.assert_allclose(grad, 3 * slope(x), rtol=1e-5)


def test_bpda_inside_a_classifier_gives_an_attack_its_gradient():
  hard = lambda x: jnp.round(x).ravel() @ WEIGHTS
  soft = lambda x: bpda(jnp.round)(x).ravel() @ WEIGHTS
  assert loss_and_grad(hard, lambda z: z[0], IMAGE).probe.flat
  point = loss_and_grad(soft, lambda z: z[0], IMAGE)
  np.testing.assert_allclose(point.grad.ravel(), WEIGHTS[:, 0], rtol=1e-6)
  np.testing.assert_array_equal(point.probe.logits, hard(IMAGE))


def test_bpda_may_change_the_shape():
  halved = bpda(lambda x: jnp.round(x[::2]), lambda x: 2 * x[::2])
  assert jax.grad(lambda x: jnp.sum(halved(x)))(jnp.ones(4)).tolist() == [2.0, 0.0, 2.0, 0.0]
