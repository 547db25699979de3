"""Certified training on networks whose worst case is known."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.training.technique import Batch, Context
from jaxrobust.training.techniques.certified import ConvexOuterTraining, CrownIntervalTraining, IntervalTraining

DRAW = np.random.default_rng(0)
LINEAR = jnp.asarray(DRAW.normal(size=(4, 3)), jnp.float32)
HIDDEN = jnp.asarray(DRAW.normal(size=(4, 5)), jnp.float32), jnp.asarray(DRAW.normal(size=(5, 3)), jnp.float32)
IMAGES = jnp.asarray(DRAW.uniform(0.3, 0.7, size=(6, 2, 2, 1)), jnp.float32)
LABELS = jnp.asarray([0, 1, 2, 0, 1, 2])
BATCH = Batch(IMAGES, jax.nn.one_hot(LABELS, 3), LABELS, jnp.zeros((6, 2), jnp.uint32))
UNUSED = Classifier.from_function(lambda x: x[:, 0, 0], 3)


def loss_of(technique, weights, scale=1.0):  # type: ignore[no-untyped-def]
  def network(images, batch_stats, weights=weights, **more):  # type: ignore[no-untyped-def]
    flat = images.reshape(len(images), -1)
    return (flat @ weights if not isinstance(weights, tuple) else jax.nn.relu(flat @ weights[0]) @ weights[1]), {}

  context = Context(UNUSED, {}, jnp.float32(scale), jax.random.key(0))
  return technique.loss(network, BATCH, context).values


@pytest.mark.parametrize("kind", [IntervalTraining, CrownIntervalTraining, ConvexOuterTraining])
def test_the_worst_case_of_a_linear_network_is_known(kind: type) -> None:
  """The margin w · x of a linear network falls by eps ||w||_1, whatever the bounds."""
  technique = kind(eps=0.1, kappa=0.25)
  flat = np.asarray(IMAGES).reshape(6, -1)
  differences = np.asarray(LINEAR)[:, np.asarray(LABELS)].T[:, :, None] - np.asarray(LINEAR)[None]
  margins = np.einsum("nd,ndc->nc", flat, differences)
  ce = lambda logits: -np.asarray(jax.nn.log_softmax(logits))[np.arange(6), np.asarray(LABELS)]
  for scale in (0.0, 0.5, 1.0):
    worst = -(margins - 0.1 * scale * np.abs(differences).sum(1))
    share = 1 - 0.75 * scale
    wanted = share * ce(flat @ np.asarray(LINEAR)) + (1 - share) * ce(worst)
    np.testing.assert_allclose(loss_of(technique, LINEAR, scale), wanted, rtol=1e-4)


def test_the_worst_case_behind_a_hidden_layer_by_hand() -> None:
  """Every step of the three bounds written out in float64, for one hidden layer of five neurons."""
  first, second = (np.asarray(one, np.float64) for one in HIDDEN)
  flat, labels, eps = np.asarray(IMAGES, np.float64).reshape(6, -1), np.asarray(LABELS), 0.1
  ce = lambda logits: np.log(np.exp(logits - logits[np.arange(6), labels][:, None]).sum(1))
  low, high = flat @ first - eps * np.abs(first).sum(0), flat @ first + eps * np.abs(first).sum(0)
  assert ((low < 0) & (high > 0)).any() and (np.abs(flat - 0.5) < 0.4).all()  # The box is not in the way.
  rows = second[:, labels].T[:, :, None] - second[None]  # (image, neuron, class)
  up, down = np.maximum(rows, 0), np.minimum(rows, 0)
  relu = lambda x: np.maximum(x, 0)[:, :, None]
  intervals = (up * relu(low) + down * relu(high)).sum(1)

  slope = np.where(low >= 0, 1.0, np.where(high <= 0, 0.0, high / (high - low)))
  crossing = (low < 0) & (high > 0)

  def backward(below):  # type: ignore[no-untyped-def]
    back = up * below[:, :, None] + down * slope[:, :, None]
    offset = (down * np.where(crossing, -slope * low, 0.0)[:, :, None]).sum(1)
    back = np.einsum("dn,inc->idc", first, back)
    return np.einsum("id,idc->ic", flat, back) - eps * np.abs(back).sum(1) + offset

  crown = backward(np.where(crossing, high > -low, slope).astype(float))
  both = 0.25 * crown + 0.75 * intervals
  for technique, margins in (
    (IntervalTraining(0.1, kappa=0.0), intervals),
    (CrownIntervalTraining(0.1, kappa=0.0, beta=0.25), both),
    (ConvexOuterTraining(0.1), backward(slope)),
  ):
    np.testing.assert_allclose(loss_of(technique, HIDDEN), ce(-margins), rtol=1e-4)


@pytest.mark.ci
def test_bounds_are_ordered_and_weights_get_gradients() -> None:
  """Every bound is at least the loss of any image in the ball; CROWN-IBP's CROWN bound is the tighter one here."""
  techniques = (
    IntervalTraining(0.05, kappa=0.0),
    ConvexOuterTraining(0.05),
    CrownIntervalTraining(0.05, kappa=0.0, beta=1.0),
  )
  losses = [np.asarray(loss_of(technique, HIDDEN)) for technique in techniques]
  flat = np.asarray(IMAGES).reshape(6, -1)
  moved = np.clip(flat[None] + 0.05 * np.sign(np.random.default_rng(1).normal(size=(200, 6, 4))), 0, 1)
  logits = np.maximum(moved @ np.asarray(HIDDEN[0]), 0) @ np.asarray(HIDDEN[1])
  seen = -np.asarray(jax.nn.log_softmax(logits))[:, np.arange(6), np.asarray(LABELS)]
  for technique, loss in zip(techniques, losses, strict=True):
    assert (loss >= seen.max(0) - 1e-5).all()
    gradient = jax.grad(lambda weights, technique=technique: loss_of(technique, weights).mean())(HIDDEN)
    assert all(np.isfinite(one).all() and np.abs(one).max() > 0 for one in gradient)
  assert losses[2].mean() <= losses[0].mean() + 1e-6
  with pytest.raises(InputError, match="share of the loss"):
    IntervalTraining(kappa=2.0)


@pytest.mark.parametrize("kind", [CrownIntervalTraining, ConvexOuterTraining])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_gradients_are_those_of_differences(kind: type, norm: str) -> None:
  """Also where the row of the label is zero, and the search for its least value in an l2 ball has no slope."""
  technique = kind(0.05, norm=norm, **({"beta": 1.0} if kind is CrownIntervalTraining else {}))
  mean = jax.jit(lambda weights: loss_of(technique, weights).mean())
  ahead = [jnp.asarray(np.random.default_rng(2).normal(size=one.shape), jnp.float32) for one in HIDDEN]
  moved = [mean(tuple(one + step * way for one, way in zip(HIDDEN, ahead, strict=True))) for step in (-1e-2, 1e-2)]
  slope = sum(jnp.vdot(one, way) for one, way in zip(jax.grad(mean)(HIDDEN), ahead, strict=True))
  np.testing.assert_allclose(slope, (moved[1] - moved[0]) / 2e-2, rtol=0.05)
