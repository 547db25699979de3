"""Numbers of single defenses, beside others or worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.core.classifier import Classifier
from jaxrobust.defenses.registry import make_defense
from jaxrobust.defenses.smoothing import votes
from jaxrobust.defenses.tv import total_variation

IMAGE = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
KEYS = jax.random.split(jax.random.key(0), 200)


@pytest.mark.smoke
def test_bit_depth_has_equal_bins():
  values = jnp.asarray(np.linspace(0, 1, 4001, dtype=np.float32))
  levels, counts = np.unique(np.asarray(make_defense("bit-depth").transform(values, None)), return_counts=True)
  np.testing.assert_allclose(levels, [0, 1 / 3, 2 / 3, 1], rtol=1e-6)
  assert counts.max() - counts.min() <= 1


def test_r_and_p_draws_every_size_and_place_and_copies_pixels():
  transform = jax.jit(make_defense("r&p").transform)
  ones = np.asarray(jax.vmap(lambda key: transform(jnp.ones((32, 32, 1)), key))(KEYS))[..., 0]
  rows, columns = ones.max(2), ones.max(1)
  assert set(rows.sum(1)) == set(columns.sum(1)) == {28, 29, 30, 31}
  np.testing.assert_array_equal(ones, rows[:, :, None] * columns[:, None, :])
  assert {int(row.argmax()) for row in rows} == set(range(5)) and (rows.argmax(1) != columns.argmax(1)).any()
  seen = np.asarray(transform(jnp.asarray(IMAGE / np.float32(255)), KEYS[0]))
  assert set(np.rint(seen * 255).astype(int).ravel()) <= set(IMAGE.ravel().tolist()) | {0}


def test_r_and_p_never_shrinks_an_image_to_nothing():
  transform = make_defense("r&p,smallest=0.01").transform
  ones = jax.vmap(lambda key: transform(jnp.ones((8, 8, 1)), key))(KEYS)
  assert set(np.asarray(ones).sum((1, 2, 3)).tolist()) == {float(side**2) for side in range(1, 8)}


def test_randmix_with_sharp_clusters_shows_nothing_but_centers():
  defense = make_defense("randmix", noise=0.0, sharpness=1e4, centers=3)
  image = jnp.asarray(IMAGE[:8, :8] / np.float32(255))
  seen = np.asarray(defense.discretized(image, KEYS[0])).reshape(-1, 3)
  colors = np.unique(seen.round(5), axis=0)
  pixels = np.asarray(image).reshape(-1, 3)
  assert len(colors) <= 3
  assert all(np.abs(pixels - color).max(1).min() < 1e-4 for color in colors)
  nearest = colors[np.square(pixels[:, None] - colors).sum(-1).argmin(1)]
  np.testing.assert_allclose(seen, nearest, atol=1e-4)


def test_randmix_averages_logits():
  network = Classifier.from_function(lambda x: x.mean((1, 2))[:, :2], 2)
  defended = make_defense("randmix", copies=3)(network)
  x = jnp.asarray(IMAGE[None] / np.float32(255))
  keys = jax.random.split(KEYS[0], (3, 2))
  one = make_defense("randmix", copies=3)
  by_hand = [network(jax.vmap(one.discretized)(x, jax.random.split(pair[0], 1))) for pair in keys]
  np.testing.assert_allclose(defended(x, KEYS[0]), np.mean(by_hand, 0), rtol=1e-5)


def test_total_variation_goes_down_and_what_is_masked_is_filled_in():
  defense = make_defense("tv-min")
  x, y = np.meshgrid(np.linspace(0.2, 0.8, 24), np.linspace(0.3, 0.7, 24))
  smooth = np.stack([x, y, (x + y) / 2], -1).astype(np.float32)
  noisy = np.clip(smooth + 0.05 * np.random.default_rng(0).normal(size=smooth.shape), 0, 1).astype(np.float32)
  found = np.asarray(jax.jit(defense.transform)(jnp.asarray(noisy), KEYS[0]))
  assert total_variation(jnp.asarray(found)) < 0.5 * total_variation(jnp.asarray(noisy))
  assert np.square(found - smooth).mean() < 0.6 * np.square(noisy - smooth).mean()


def test_votes_are_counted():
  logits = jnp.asarray(np.eye(3)[[0, 1, 1, 1]][:, None], jnp.float32)
  np.testing.assert_allclose(np.exp(votes(logits))[0], np.array([2, 4, 1]) / 7, rtol=1e-5)


def test_smoothing_without_noise_votes_for_the_same_class_and_follows_the_soft_gradient():
  weights = jnp.asarray(np.random.default_rng(1).normal(size=(12, 3)), jnp.float32)
  network = Classifier.from_function(lambda w, x: x.reshape(len(x), -1) @ w, 3, variables=weights)
  defended = make_defense("smoothing-vote", sigma=0.0, copies=4)(network)
  x = jnp.asarray(np.random.default_rng(2).uniform(size=(5, 2, 2, 3)), jnp.float32)
  logits = defended(x, KEYS[0])
  np.testing.assert_array_equal(logits.argmax(1), network(x).argmax(1))
  np.testing.assert_allclose(np.exp(logits).max(1), 5 / 7, rtol=1e-5)
  gradient = jax.grad(lambda x: defended.adaptive_view(x, KEYS[0])[:, 1].sum())(x)
  np.testing.assert_allclose(gradient, jax.grad(lambda x: jax.nn.log_softmax(network(x))[:, 1].sum())(x), rtol=1e-4)
