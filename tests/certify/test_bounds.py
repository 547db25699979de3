"""Bounds against a dense float64 CROWN written out by hand, and against the smallest margin of all there is."""

from __future__ import annotations

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from jaxrobust.certify import crown
from jaxrobust.certify.certifier import Certifier, certified_radii, certify_images
from jaxrobust.certify.crown import BoundMethod, lower_bounds
from jaxrobust.certify.intervals import walk
from jaxrobust.certify.program import read_program
from jaxrobust.certify.region import Region
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.models.families.cnn import CNN
from jaxrobust.models.layers.basic import adaptive_avg_pool, avg_pool, batch_norm, flatten, max_pool
from jaxrobust.models.layers.conv import Conv

METHODS = {
  "ibp": BoundMethod(backward=False),
  "crown-ibp": BoundMethod(layers=False),
  "crown": BoundMethod(),
  "alpha": BoundMethod(ascents=10),
  "kw": BoundMethod(parallel=True, box=False, meet=False),
}


class Mixed(nn.Module):
  """A bit of everything that has bounds."""

  num_classes: int = 3
  pool: tuple[int, int, int] = (2, 2, 0)

  @nn.compact
  def __call__(self, x, train=False):  # type: ignore[no-untyped-def]
    x = nn.relu(batch_norm(train, "bn")(Conv(4, 3, 1, 1, name="conv")(x)))
    x = max_pool(x, *self.pool)
    y = jnp.clip(Conv(4, 3, 1, 1, groups=2, name="conv2")(x), -1, 6)
    x = jnp.concatenate([avg_pool(x + y, 2, 2), jnp.abs(x - jnp.minimum(y, 0.1))[:, ::2, 1::2]], -1)
    x = adaptive_avg_pool(x, 3)
    return nn.Dense(self.num_classes, name="fc")(flatten(x))


def dense(weights: list[np.ndarray], biases: list[np.ndarray]) -> Classifier:
  """A network of dense layers on flat images."""

  def logits(variables, images):
    x = images.reshape(len(images), -1)
    for layer, (weight, bias) in enumerate(zip(*variables, strict=True)):
      x = (jax.nn.relu(x) if layer else x) @ weight + bias
    return x

  arrays = [[jnp.asarray(one, jnp.float32) for one in part] for part in (weights, biases)]
  return Classifier.from_function(logits, weights[-1].shape[1], variables=arrays)


def random_layers(seed: int, sizes: tuple[int, ...]) -> tuple[list[np.ndarray], list[np.ndarray]]:
  draw = np.random.default_rng(seed)
  weights = [draw.normal(size=(a, b)) / np.sqrt(a) for a, b in itertools.pairwise(sizes)]
  return weights, [draw.normal(size=size) / 4 for size in sizes[1:]]


def dense_crown(weights, biases, low, high, rows, parallel=False):  # type: ignore[no-untyped-def]
  """CROWN in float64, matrices written out: bounds of layers first, then of rows of the last one."""
  bounds: list = []

  def back(matrix, depth, sign):  # type: ignore[no-untyped-def]
    """Lower (sign 1) or upper (sign -1) bounds of matrix · (output of layer `depth`)."""
    coefficients, constant = sign * matrix, 0.0
    for layer in range(depth, -1, -1):
      constant = constant + coefficients @ biases[layer]
      coefficients = coefficients @ weights[layer].T
      if layer:
        lower, upper = bounds[layer - 1]
        slope = np.where(lower >= 0, 1.0, np.where(upper <= 0, 0.0, upper / np.maximum(upper - lower, 1e-12)))
        crossing = (lower < 0) & (upper > 0)
        below = np.where(crossing, slope if parallel else (upper > -lower), slope)
        constant = constant + np.minimum(coefficients, 0) @ np.where(crossing, -slope * lower, 0)
        coefficients = np.maximum(coefficients, 0) * below + np.minimum(coefficients, 0) * slope
    return sign * (np.maximum(coefficients, 0) @ low + np.minimum(coefficients, 0) @ high + constant)

  for depth in range(len(weights) - 1):
    identity = np.eye(weights[depth].shape[1])
    bounds.append((back(identity, depth, 1), back(identity, depth, -1)))
  return back(rows, len(weights) - 1, 1)


@pytest.mark.parametrize("parallel", [False, True])
def test_equal_to_a_dense_crown_in_float64(parallel: bool) -> None:
  sizes = (8, 16, 12, 4)
  rows = np.eye(4)[0] - np.eye(4)
  method = BoundMethod(parallel=parallel, meet=False)
  bound = jax.jit(
    lambda model, image, eps: lower_bounds(
      read_program(model, (2, 2, 2)), Region.around("linf", image, eps), jnp.asarray(rows), method
    )
  )
  worst = 0.0
  for seed, eps in itertools.product(range(8), (0.01, 0.1, 0.3)):
    weights, biases = random_layers(seed, sizes)
    image = np.random.default_rng(seed).uniform(size=(2, 2, 2)).astype(np.float32)
    exact = [np.float64(np.float32(one)) for one in (*weights, *biases)]
    low, high = np.maximum(image.ravel() - eps, 0.0), np.minimum(image.ravel() + eps, 1.0)
    wanted = dense_crown(exact[:3], exact[3:], low, high, rows, parallel)
    found = bound(dense(weights, biases), image, eps)
    assert np.abs(np.asarray(found.value) - wanted).max() < 1e-4
    worst = max(worst, float((np.abs(np.asarray(found.value) - wanted) / np.asarray(found.mass + 1e-9)).max()))
  assert worst < 2.0**-20  # A quarter of the slack.


def smallest_margin(weights, biases, low, high, row) -> float:  # type: ignore[no-untyped-def]
  """The least value of a row over a box, exactly: every pattern of the one hidden layer is a linear program.

  With two inputs its vertices are corners and crossings of lines; all of them are tried.
  """
  from scipy.optimize import linprog

  hidden, best = weights[0].shape[1], np.inf
  for pattern in itertools.product((0, 1), repeat=hidden):
    on = np.array(pattern)
    # Active neurons are at least 0, the others at most 0.
    signs = np.where(on, -1.0, 1.0)
    slope = weights[0] @ (on * (weights[1] @ row))
    constant = (biases[0] * on) @ (weights[1] @ row) + biases[1] @ row
    limits = (signs[:, None] * weights[0].T, -signs * biases[0])
    found = linprog(slope, *limits, bounds=list(zip(low, high, strict=True)))
    if found.success:
      best = min(best, found.fun + constant)
  return best


def test_never_above_the_enumerated_minimum() -> None:
  pytest.importorskip("scipy")
  rows = jnp.asarray([[1.0, -1.0]])
  shape = (1, 2, 2)
  bounds = jax.jit(
    lambda model, image, eps: [
      lower_bounds(read_program(model, shape), Region.around("linf", image, eps), rows, one) for one in METHODS.values()
    ]
  )
  for seed, eps in itertools.product(range(4), (0.05, 0.2)):
    weights, biases = random_layers(seed, (4, 5, 2))
    image = np.random.default_rng(seed).uniform(size=shape).astype(np.float32)
    low, high = np.maximum(image.ravel() - eps, 0.0), np.minimum(image.ravel() + eps, 1.0)
    exact = smallest_margin(weights, biases, low, high, np.array([1.0, -1.0]))
    found = dict(zip(METHODS, (float(one.value[0]) for one in bounds(dense(weights, biases), image, eps)), strict=True))
    assert max(found.values()) <= exact + 1e-5, found
    assert found["crown-ibp"] >= found["ibp"] - 1.0  # A bound, not a wild guess.
    assert found["alpha"] >= found["crown"] - 1e-6


@pytest.mark.parametrize("name", ["crown-ibp", "alpha"])
def test_rows_of_many_classes_take_no_more_memory_than_a_few(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
  """A thousand classes at 224 pixels would fill any memory at once; in chunks the bounds are the same."""
  model, rows = dense(*random_layers(0, (8, 6, 40))), jnp.eye(40)[0] - jnp.eye(40)
  image = jnp.asarray(np.random.default_rng(0).uniform(size=(2, 2, 2)), jnp.float32)

  def bounds(model: Classifier, image: jax.Array, size: int = 1) -> jax.Array:
    wide = dataclasses.replace(
      model, apply=lambda variables, x, key: model.apply(variables, x.reshape(-1, size, 8).mean(1), key)
    )
    region = Region.around("linf", jnp.tile(image.reshape(1, 1, 8), (size, 1, 1)), jnp.float32(0.1))
    return lower_bounds(read_program(wide, region.image.shape), region, rows, METHODS[name]).value

  whole = jax.jit(bounds)(model, image)
  monkeypatch.setattr(crown, "_ROWS_FLOATS", 7 * 12)
  np.testing.assert_allclose(jax.jit(lambda *given: bounds(*given))(model, image), whole, rtol=1e-5)
  monkeypatch.undo()
  compiled = jax.jit(lambda *given: bounds(*given, size=1 << 17)).lower(model, image).compile()
  assert compiled.memory_analysis().temp_size_in_bytes < 40 * (1 << 20) * 4 / 2  # Half of what all rows would be.


def test_a_rewritten_network_computes_the_same() -> None:
  shape, module = (8, 8, 2), Mixed(pool=(3, 2, 1))
  model = Classifier.from_module(module, module.init(jax.random.key(1), jnp.zeros((1, *shape))), mean=0.4, std=0.3)
  image = jax.random.uniform(jax.random.key(2), shape)
  program = read_program(model, shape)
  again = walk(program, image[None], lambda number, value: jax.nn.relu(value))
  assert len(program.shapes) == 1 + 8 + 2 + 2  # ReLU, a pool of nine, clip, and minimum and absolute value.
  np.testing.assert_allclose(again, model(image[None]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
  "module, norm, eps", [(CNN(3, (4,), 8), "l2", 0.3), (Mixed(), "linf", 0.03)], ids=["l2", "linf"]
)
def test_images_of_the_region_stay_above_the_bounds(module: nn.Module, norm: str, eps: float) -> None:
  shape, draw = (8, 8, 2), np.random.default_rng(0)
  variables = module.init(jax.random.key(1), jnp.zeros((1, *shape)))
  model = Classifier.from_module(module, variables, mean=0.4, std=0.3)
  image = draw.uniform(size=shape).astype(np.float32)
  rows = jnp.eye(3)[1] - jnp.eye(3)

  @jax.jit
  def bounds(model: Classifier, image: jax.Array) -> jax.Array:
    program, region = read_program(model, shape), Region.around(norm, image, jnp.float32(eps))
    return jnp.stack([lower_bounds(program, region, rows, METHODS[name]).value for name in ("ibp", "crown")])

  found = np.asarray(bounds(model, image))
  noise = draw.normal(size=(256, *shape))
  noise = np.sign(noise) * eps if norm == "linf" else noise * eps / np.sqrt((noise**2).sum((1, 2, 3), keepdims=True))
  logits = np.asarray(model(jnp.asarray(np.clip(image + noise, 0, 1), jnp.float32)))
  least = (logits @ np.asarray(rows).T).min(0)
  assert (found <= least + 1e-5).all()
  assert found[1].min() > found[0].min()  # CROWN's are the better ones.


def test_what_has_no_bounds_is_refused_by_name() -> None:
  images, labels = np.full((1, 1, 1, 2), 0.5, np.float32), np.zeros(1, int)
  for function, word in (
    (lambda x: jnp.exp(x[:, 0, 0]), "uses exp"),
    (lambda x: x[:, 0, 0] * x[:, 0, 0], "mul of values that both depend"),
    (lambda x: jnp.where(x > 0.5, x, 2 * x)[:, 0, 0], "gt"),
    (lambda x: x[:, 0, 0].astype(jnp.bfloat16), "bfloat16"),
    (lambda x: x[:, 0, 0] / x[:, 0, 0].sum(), "div of values that both depend"),
    (lambda x: jnp.take(x[:, 0, 0], jnp.array([0, 7]), 1, mode="fill", fill_value=-1), "gather with a value"),
  ):
    with pytest.raises(InputError, match=word):
      certify_images(Classifier.from_function(function, 2), images, labels, "1/255")
  with pytest.raises(UnknownNameError, match="unknown norm 'l1'"):
    certify_images(Classifier.from_function(lambda x: x[:, 0, 0], 2), images, labels, "1/255", norm="l1")


def test_bounds_that_overflow_prove_nothing() -> None:
  """Within the ball the network itself overflows to NaN: layers without bounds must not look like ones that are off."""
  image, biases = np.full((1, 2, 2, 1), 0.5, np.float32), [np.full(6, -2.0), *[np.zeros(6)] * 2, np.array([3.0, 0.0])]
  for scale, finite in ((1e19, False), (1e15, True)):
    model = dense([np.ones((4, 6)), *[np.full((6, 6), scale)] * 2, np.zeros((6, 2))], biases)
    assert np.asarray(model(image)).tolist() == [[3.0, 0.0]] and np.isfinite(model(image + 0.3)).all() == finite
    for method in ("crown", "kw"):
      assert certify_images(model, image, np.array([0]), "0.3", method=method).certified.all() == finite


def test_bounds_take_no_products_of_less_than_float32() -> None:
  """An accelerator's default products are wrong by more than the slack."""
  seen = []

  def logits(images: jax.Array) -> jax.Array:
    seen.append(jax.config.jax_default_matmul_precision)
    return images[:, 0, 0]

  certifier = Certifier(Classifier.from_function(logits, 2), (1, 1, 2))
  seen.clear()
  with jax.default_matmul_precision("bfloat16"):
    certifier(np.array([[[[0.8, 0.4]]]], np.float32), np.array([0]), np.array([0.1]))
  assert set(seen) == {"highest"}


def test_radius_of_a_linear_classifier_and_batches() -> None:
  """The margin w · x of a linear classifier is lost at distance margin / ||w||_1 or ||w||_2, where the box lets it."""
  slope = np.array([[1.0, -2.0, 0.5], [0.0, 1.0, 1.0]]).T
  model = Classifier.from_function(lambda x: x[:, 0, 0] @ jnp.asarray(slope, jnp.float32), 2)
  images = np.random.default_rng(3).uniform(0.3, 0.7, size=(7, 1, 1, 3)).astype(np.float32)
  margins = images[:, 0, 0] @ (slope[:, 0] - slope[:, 1])
  labels = (margins < 0).astype(int)
  for norm, order in (("linf", 1), ("l2", 2)):
    certifier = Certifier(model, (1, 1, 3), norm)
    radii = certified_radii(certifier, images, labels, 0.05)
    exact = np.abs(margins) / np.linalg.norm(slope[:, 0] - slope[:, 1], order)
    inside = exact < 0.3
    assert inside.any()
    assert (radii[inside] < exact[inside]).all() and (radii[inside] > 0.97 * exact[inside]).all()
    alone = np.concatenate(
      [certified_radii(certifier, images[at : at + 1], labels[at : at + 1], 0.05) for at in range(7)]
    )
    assert alone.tolist() == radii.tolist()
    assert np.isnan(certified_radii(certifier, images, 1 - labels, 0.05)).all()
