"""GAT's changes are kornia's, its searches those of NumPy, and their order is all that a batch's key decides."""

from __future__ import annotations

import colorsys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import ndimage

from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.training.composition import make_technique
from jaxrobust.training.techniques.composite import CHANGES, rotate, scale_saturation, turn_hue
from tests.training.techniques.linear import context, rows, softmax, weights


def colors(count: int = 40) -> np.ndarray:
  image = np.random.default_rng(3).uniform(size=(count, 1, 3)).astype(np.float32)
  image[:4, 0] = [[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.2], [1, 0, 0]]
  return image


def crafted(objective: Any, batch: Any, frozen: Any) -> np.ndarray:
  return np.asarray(jax.jit(lambda batch: objective.craft(batch, frozen))(batch))


@pytest.mark.parametrize("share", [-1.0, -0.4, 0.0, 0.7])
def test_hues_and_saturations_are_those_of_hsv(share):
  image = colors()
  hsv = np.array([colorsys.rgb_to_hsv(*color) for color in image[:, 0].astype(float)])
  turned = [colorsys.hsv_to_rgb((hue + share / 2) % 1, *rest) for hue, *rest in hsv]
  np.testing.assert_allclose(turn_hue(jnp.asarray(image), share)[:, 0], turned, atol=2e-6)
  scaled = [colorsys.hsv_to_rgb(hue, min(1, part * (1 + 0.3 * share)), value) for hue, part, value in hsv]
  np.testing.assert_allclose(scale_saturation(jnp.asarray(image), share)[:, 0], scaled, atol=2e-6)


def test_rotations_are_those_of_scipy_and_nothing_changes_at_zero():
  image = np.random.default_rng(4).uniform(size=(9, 9, 3)).astype(np.float32)
  turned = ndimage.rotate(image, 7.0, (1, 0), reshape=False, order=1, mode="grid-constant")
  np.testing.assert_allclose(rotate(jnp.asarray(image), jnp.asarray(0.7)), turned, atol=2e-5)
  for change in CHANGES.values():
    np.testing.assert_allclose(change(jnp.asarray(image), jnp.asarray(0.0)), image, atol=1e-6)


def test_a_ball_alone_is_that_of_pgd_from_the_image():
  batch, frozen = rows(), context(weights())
  alone = make_technique("gat", changes=("linf",), eps="0.1")
  ball = make_technique("pgd-at", eps="0.1", random_start=False)
  np.testing.assert_allclose(crafted(alone, batch, frozen), crafted(ball, batch, frozen), atol=1e-6)


def climb(name: str, number: int, images: np.ndarray, batch: Any, matrix: np.ndarray) -> np.ndarray:
  """Ten steps of one change against a linear network, by differences."""
  keys = jax.vmap(jax.random.fold_in, (0, None))(batch.keys, number)
  share = np.asarray(jax.vmap(lambda key: jax.random.uniform(key, minval=-1.0))(keys), np.float64)
  draw = {"brightness": lambda w: images + 0.2 * w, "contrast": lambda w: images * (1 + 0.3 * w)}[name]
  made = lambda share: np.clip(draw(share[:, None]), 0, 1)
  loss = lambda share: -np.sum(np.asarray(batch.targets) * np.log(softmax(made(share) @ matrix)), -1)
  for _ in range(10):
    share = np.clip(share + 0.25 * np.sign(loss(share + 1e-5) - loss(share - 1e-5)), -1, 1)
  return made(share)


def test_changes_follow_each_other_in_an_order_that_is_drawn():
  matrix, batch = weights(), rows()
  start = np.asarray(batch.images, np.float64).reshape(len(batch.labels), -1)
  objective = make_technique("gat", changes=("brightness", "contrast"))
  forward = climb("contrast", 1, climb("brightness", 0, start, batch, matrix), batch, matrix)
  backward = climb("brightness", 0, climb("contrast", 1, start, batch, matrix), batch, matrix)
  assert np.abs(forward - backward).max() > 1e-3
  seen = set()
  for seed in range(6):
    found = crafted(objective, batch, context(matrix)._replace(key=jax.random.key(seed))).reshape(start.shape)
    matches = [np.allclose(found, want, atol=1e-5) for want in (forward, backward)]
    assert sum(matches) == 1
    seen.add(matches.index(True))
  assert seen == {0, 1}
  still = crafted(objective, batch, context(matrix)._replace(eps_scale=jnp.float32(0)))
  np.testing.assert_allclose(still, batch.images, atol=1e-7)


@pytest.mark.parametrize(
  ("options", "text"),
  [
    ({"changes": ()}, "needs changes"),
    ({"changes": ("hue", "hue")}, "each of them once"),
    ({"changes": ("fog",)}, "unknown change 'fog'"),
    ({"norm": "l2", "eps": "0.5"}, "in linf"),
  ],
)
def test_what_cannot_be_is_refused(options, text):
  with pytest.raises((InputError, UnknownNameError), match=text):
    make_technique("gat", **options)
  with pytest.raises(InputError, match="need three channels"):
    make_technique("gat").craft(rows(), context(weights()))
