"""Perceptual, spatial and color attacks: the reference's numbers, closed forms, and bounds that the engine verifies."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrobust as jr
from jaxrobust.attacks import luv
from jaxrobust.attacks.lpa import LPA, FastLPA
from jaxrobust.attacks.perceptual_steps import look, project
from jaxrobust.attacks.ppgd import PPGD
from jaxrobust.attacks.recolor import ReColor
from jaxrobust.attacks.stadv import Flow, StAdv
from jaxrobust.core.contract import bind_threat
from jaxrobust.core.errors import InputError
from jaxrobust.core.gradients import ImageLogits
from jaxrobust.core.lpips import FeatureNetwork, Lpips
from jaxrobust.core.types import Problem
from jaxrobust.models.perceptual import CHAINS, Convolution, Convolutions
from tests.golden import perceptual_networks as networks

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "perceptual.npz")
VGG16 = Convolutions(CHAINS["vgg16"])
CHAIN = Convolutions(tuple(Convolution(*row) for row in networks.CHAIN))


def _features(variables, images):
  return CHAIN(variables["layers"], images)


def _logits(variables, images):
  return _features(variables, images)[-1].mean((1, 2)) @ variables["head"]


def network(seed: int) -> FeatureNetwork:
  return FeatureNetwork(networks.layers(seed), CHAIN)


def classifier() -> jr.Classifier:
  variables = {"layers": networks.layers(1), "head": networks.head(2)}
  return jr.Classifier.from_function(_logits, networks.CLASSES, variables=variables, features=_features)


THREATS = {"self": Lpips(), "other": Lpips(network(3), "lpips-other")}


def run(attack: Any, steps: int, eps: float, start: Any = None) -> np.ndarray:
  """Returns the points after some steps, all images at once; `start` replaces the first images or offsets."""
  images, model = networks.pictures(len(GOLDEN["labels"])), classifier()
  bound = bind_threat(attack, model)

  def one(image, label, start):
    problem = Problem(image, label, jnp.asarray(-1), jnp.asarray(eps), jax.random.key(0))
    state = bound.init(problem)
    if start is not None and bound.threat.witnessed:
      state = state._replace(scene=state.scene._replace(offset=start))
    elif start is not None:
      state = state._replace(image=start)
    for _ in range(steps):
      state, _ = bound.step(ImageLogits(model, problem.key), problem, state)
    found = bound.candidate(problem, state)
    return found[0] if bound.threat.witnessed else found

  axes = (0, 0, None if start is None else 0)
  return np.asarray(jax.jit(jax.vmap(one, in_axes=axes))(images, GOLDEN["labels"], start))


def test_features_and_distances_are_the_references():
  images, threat = networks.pictures(4), THREATS["other"]
  np.testing.assert_allclose(jax.vmap(threat.embed)(images), GOLDEN["features"], atol=1e-5)
  np.testing.assert_allclose(jax.vmap(threat.distance)(images, images[::-1]), GOLDEN["distances"], atol=1e-5)


@pytest.mark.ci
def test_features_of_vgg16_are_the_references():
  """The layers that perceptual-advex looks at, by its own class; a sixteenth as wide, with random weights."""
  golden = np.load(Path(__file__).parents[1] / "golden" / "perceptual_vgg16.npz")
  images, threat = networks.pictures(4, side=32), Lpips(FeatureNetwork(networks.vgg16_layers(), VGG16), "lpips-vgg16")
  np.testing.assert_allclose(threat.embed(images[0]), golden["features"][0], atol=1e-5)
  np.testing.assert_allclose(jax.vmap(threat.distance)(images, images[::-1]), golden["distances"], atol=1e-5)


def test_a_look_in_own_features_is_one_pass_and_one_way_back():
  """The same numbers as by another classifier that is equal, in half the convolutions."""
  model = jr.load_classifier("digits32-standard")
  image = jnp.asarray(jr.load_data("digits32").take([0])[0][0], jnp.float32) + 0.01

  def found(network, image):
    seen = look(Lpips(network), ImageLogits(model, jax.random.key(0)), lambda logits: logits[0], image)
    return seen.loss, seen.phi, seen.pull(seen.slope, 2.0 * seen.phi), seen.pull(None, seen.phi)

  own, other = (jax.make_jaxpr(lambda x, n=n: found(n, x))(image) for n in (model, dataclasses.replace(model)))
  assert str(own).count("conv") < 0.8 * str(other).count("conv") > 0
  for one, two in zip(found(model, image), found(dataclasses.replace(model), image), strict=True):
    np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4 * float(jnp.abs(two).max()))


# A name of the golden file, the attack, its steps and its bound, how far pixels may be apart.
STEPS = [
  ("ppgd-1", lambda threat: PPGD(40, threat=threat), 1, 0.5, 1e-4),
  ("ppgd-3", lambda threat: PPGD(40, threat=threat), 3, 0.5, 3e-4),
  ("lpa-rounds", lambda threat: LPA(2, 3, threat=threat), 4, 0.02, 1e-4),
  ("lpa-1", lambda threat: LPA(1, 2, threat=threat), 1, 0.02, 1e-4),
  ("fast-lpa-3", lambda threat: FastLPA(3, threat=threat), 3, 0.5, 1e-4),
]


@pytest.mark.parametrize("kind", ["self", pytest.param("other", marks=pytest.mark.ci)])
@pytest.mark.parametrize(("name", "make", "steps", "eps", "apart"), STEPS, ids=[row[0] for row in STEPS])
def test_steps_are_the_references(kind, name, make, steps, eps, apart):
  start = networks.pictures(4) + networks.noise(4)
  found = run(make(THREATS[kind]), steps, eps, start)
  np.testing.assert_allclose(found, GOLDEN[f"{name}-{kind}"], atol=apart)


@pytest.mark.parametrize(("attack", "eps"), [(StAdv(), 0.05), (ReColor(), 0.06)])
@pytest.mark.parametrize("steps", [1, pytest.param(2, marks=pytest.mark.ci)])
def test_steps_on_witnesses_are_the_references(attack, eps, steps):
  images = jnp.asarray(networks.pictures(4))
  offset = networks.offset(attack.threat.identity(images[0]).shape, eps)
  # Twice: the reference looks at a random start before it steps, and each look projects. Of colors that is not the
  # same as once, because matrices of four decimals are not quite each other's inverse.
  once = jax.vmap(lambda image: attack.threat.project(image, offset, eps))(images)
  start = jax.vmap(lambda image, offset: attack.threat.project(image, offset, eps))(images, once)
  np.testing.assert_allclose(run(attack, steps, eps, start), GOLDEN[f"{attack.name}-{steps}"], atol=1e-5)


def test_a_flow_begins_as_the_references_does():
  np.testing.assert_allclose(run(StAdv(), 1, 0.05), GOLDEN["fetched"], atol=1e-4)


def test_newtons_projection_is_the_references():
  images = jnp.asarray(networks.pictures(4))
  threat, far = THREATS["other"], jnp.asarray(networks.far(networks.pictures(4)))
  back = jax.vmap(lambda x, there: project(threat, threat.embed(x), x, there, jnp.asarray(networks.BOUND)))
  found = back(images, far)
  np.testing.assert_allclose(found, GOLDEN["projected"], atol=1e-4)
  moved = np.abs(found - far).max((1, 2, 3)) > 0
  assert moved.tolist() == [True, False, True, False], "what is inside stays where it is"
  # A bound that Newton's steps miss: bisection ends inside.
  near = jax.vmap(lambda x, there: project(threat, threat.embed(x), x, there, jnp.asarray(0.02)))(images, far)
  distances = jax.vmap(threat.distance)(images, near)
  assert (distances <= 0.02 + 1e-5).all() and (distances > 0.015).all()


ALL = [
  (PPGD(6, threat=THREATS["other"]), 0.2),
  (PPGD(6, exact=True), 0.2),
  (LPA(5, 2, threat=THREATS["other"]), 0.2),
  (FastLPA(5, threat=THREATS["other"]), 0.2),
  (StAdv(10), 0.03),
  (ReColor(20, learning_rate=0.01, smoothness=0.0), 0.3),
]


@pytest.mark.ci
@pytest.mark.parametrize(("attack", "eps"), ALL, ids=[f"{attack.name}-{attack.threat.name}" for attack, _ in ALL])
def test_results_are_inside_and_a_bound_of_zero_returns_the_image(attack, eps):
  """The engine verifies bounds and witnesses itself; distances are measured once more here."""
  model, images = classifier(), networks.pictures(12, seed=1)
  labels = np.asarray(model(images)).argmax(1)
  result = jr.attack_images(attack, model, images, labels, eps=eps, options=jr.EngineOptions.for_platform(12))
  broken = result.success
  assert broken.any() and (result.distance[broken] <= eps * (1 + 1e-4)).all()
  assert np.array_equal(np.asarray(model(result.images)).argmax(1) != labels, broken)
  threat = bind_threat(attack, model).threat
  if not threat.witnessed:
    measured = jax.vmap(threat.distance)(images, result.images)
    np.testing.assert_allclose(measured[broken], result.distance[broken], atol=1e-4)
  none = jr.attack_images(attack, model, images, labels, eps=0, options=jr.EngineOptions.for_platform(12))
  assert np.array_equal(none.images, images) and not none.success.any()


def test_a_shift_is_the_best_flow_against_a_classifier_of_positions():
  """Brightness on the left against the right: every pixel is best fetched from as far left as allowed."""
  ramp = np.tile(np.linspace(0.9, 0.1, 16, dtype=np.float32)[None, :, None], (16, 1, 1))
  weights = np.linspace(1, -1, 16, dtype=np.float32)

  def logits(images):
    side = (images[..., 0] * weights[None, None]).sum((1, 2))
    return jnp.stack([side * 0, 1000 - side], -1)

  model = jr.Classifier.from_function(logits, 2)
  attack, eps = StAdv(30, smoothness=0.0), jnp.asarray(0.05)
  problem = Problem(jnp.asarray(ramp), jnp.asarray(1), jnp.asarray(-1), eps, jax.random.key(0))
  state = attack.init(problem)
  step = jax.jit(lambda state: attack.step(ImageLogits(model, problem.key), problem, state)[0])
  for _ in range(30):
    state = step(state)
  inner = np.asarray(state.scene.offset)[2:-2, 2:-2, 0]
  half = inner.shape[1] // 2
  assert np.allclose(np.abs(inner), 0.05, atol=1e-6), "a linear gain uses the whole budget"
  assert (inner[:, : half - 1] < 0).all() and (inner[:, half + 1 :] > 0).all()


@pytest.mark.ci
def test_one_color_shift_is_the_best_table_against_a_classifier_of_lightness():
  image = np.full((8, 8, 3), 0.5, np.float32)

  def logits(images):
    light = luv.from_rgb(images)[..., 0].mean((1, 2))
    return jnp.stack([light, 10 - light], -1)

  model = jr.Classifier.from_function(logits, 2)
  attack, eps = ReColor(100, smoothness=0.0), jnp.asarray(0.06)
  problem = Problem(jnp.asarray(image), jnp.asarray(1), jnp.asarray(-1), eps, jax.random.key(0))
  state = attack.init(problem)
  step = jax.jit(lambda state: attack.step(ImageLogits(model, problem.key), problem, state)[0])
  for _ in range(100):
    state = step(state)
  found, _ = attack.candidate(problem, state)
  before, after = (float(luv.from_rgb(jnp.asarray(picture))[..., 0].mean()) for picture in (image, found))
  assert after - before == pytest.approx(0.06, abs=2e-3), "the lightness of the one color rises by the whole budget"


def test_color_tables_need_colors():
  model = jr.Classifier.from_function(lambda x: jnp.stack([x.mean((1, 2, 3)), 1 - x.mean((1, 2, 3))], -1), 2)
  with pytest.raises(InputError, match="three channels"):
    jr.attack_images(ReColor(2), model, np.full((2, 8, 8, 1), 0.4, np.float32), np.ones(2, int), eps=0.06)
  with pytest.raises(InputError, match="threat must be a perceptual one"):
    PPGD(threat=Flow())
