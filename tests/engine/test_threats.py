"""Threats that are no norms: witnesses, feature networks, and the attacked classifier's own features."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrobust as jr
from jaxrobust import testing
from jaxrobust.core.compilation import count_compilations
from jaxrobust.core.contract import bind_threat
from jaxrobust.core.errors import InputError, VerificationError
from jaxrobust.engine import slots
from jaxrobust.engine.program import Program, empty_slots
from tests.engine.test_devices import run
from tests.guide_attacks import guide_attacks

GUIDE = guide_attacks()
SLOTS = jr.EngineOptions.for_platform(16, shrink=False)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FeatureDistance(jr.Threat):
  """The l2 distance in the features of a network that is held as a pytree."""

  network: Any
  name: str = dataclasses.field(default="features", metadata={"static": True})

  def distance(self, original, image, witness=None):
    seen = self.network(jnp.stack([original, image]))
    return jnp.linalg.norm(seen[0] - seen[1])


@dataclasses.dataclass(frozen=True)
class Nearest(GUIDE.NearestLine):
  """The path of the guide, measured by any threat."""

  threat: Any = None


def features(weights, images):
  return jnp.tanh(images.reshape(len(images), -1) @ weights)


def network(seed: int) -> jr.Classifier:
  weights = np.random.default_rng(seed).normal(size=(int(np.prod(testing.SHAPE)), 8)).astype(np.float32)
  return jr.Classifier.from_function(features, 8, variables=weights)


def test_a_witness_is_rendered_again_and_measured():
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 24)
  result = jr.attack_images(GUIDE.Recolor(), classifier, images, labels, eps=0.3, options=SLOTS)
  broken = result.success
  assert broken.any() and not broken.all() and (result.distance[broken] <= 0.3 * (1 + 1e-5)).all()
  gains = result.images[broken] / images[broken] - 1
  inner = (result.images[broken] > 0) & (result.images[broken] < 1)
  spread = [np.ptp(gain[..., c][ok[..., c]]) for gain, ok in zip(gains, inner, strict=True) for c in range(3)]
  assert max(spread) < 1e-3, "every pixel of a channel has the same gain"


@dataclasses.dataclass(frozen=True)
class Liar(GUIDE.Recolor):
  """Reports gains that its image was not made with."""

  candidate = None

  def step(self, model, problem, gains):
    gains, probe = super().step(model, problem, gains)
    return gains, probe._replace(witness=0.5 * probe.witness)


def test_an_image_that_is_not_what_its_witness_renders_is_an_error():
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 24)
  with pytest.raises(VerificationError, match="not what its witness renders"):
    jr.attack_images(Liar(), classifier, images, labels, eps=0.3, options=SLOTS)


def test_the_arrays_of_a_threat_are_arguments_of_the_programs():
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 12)
  attacks = [Nearest(threat=FeatureDistance(network(seed))) for seed in (1, 2)]
  first = jr.attack_images(attacks[0], classifier, images, labels, options=SLOTS)
  with count_compilations() as count:
    second = jr.attack_images(attacks[1], classifier, images, labels, options=SLOTS)
  assert count.programs == 0, "threats of other weights share the compiled programs"
  assert first.success.all() and second.success.all() and not np.allclose(first.distance, second.distance)
  for attack, result in zip(attacks, (first, second), strict=True):
    expected = jax.vmap(attack.threat.distance)(images, result.images)
    np.testing.assert_allclose(result.distance, expected, rtol=1e-4)
    program, arrays = Program.of(
      attack, samples=1, verdict_samples=1, steps=1, mesh=SLOTS.devices, budgets=(), complete=False
    )
    hash(program)
    empty = empty_slots(program, arrays, 16, testing.SHAPE)
    closed = jax.make_jaxpr(lambda *rest, program=program: slots.advance(program, *rest))
    held = closed(classifier, arrays, empty, False).consts
    assert len(arrays) == 1 and not any(np.size(part) >= arrays[0].size for part in held)


def test_a_threat_may_be_measured_in_the_attacked_classifiers_own_features():
  classifier, attack = testing.fixture(), GUIDE.NearestFeatures()
  images, labels = testing.examples(classifier, 12)
  result = jr.attack_images(attack, classifier, images, labels, options=SLOTS)
  seen = np.asarray(classifier.features(jnp.asarray(images)) - classifier.features(jnp.asarray(result.images)))
  assert result.success.all()
  np.testing.assert_allclose(result.distance, np.linalg.norm(seen, axis=1), rtol=1e-4, atol=1e-6)
  other = dataclasses.replace(classifier, variables=jax.tree.map(lambda leaf: 1.1 * leaf, classifier.variables))
  with count_compilations() as count:
    jr.attack_images(attack, other, images, labels, options=SLOTS)
  assert count.programs == 0, "networks of other weights share the compiled programs"
  plain = jr.Classifier.from_function(lambda x: x.mean((1, 2)), 3)
  with pytest.raises(InputError, match=r"offers no features.*method `features`, or pass features="):
    jr.attack_images(attack, plain, images, np.zeros(12, int), options=SLOTS)


class Constant(GUIDE.NearestLine):
  """Has its threat as a line of the class, as norms are written."""

  threat = GUIDE.SelfFeatures()


def test_a_threat_that_is_no_field_does_not_share_programs_of_other_threats():
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 8)
  doubled = jr.Classifier.from_function(
    classifier.apply.function, 5, variables=classifier.variables, features=lambda v, x: 2 * classifier.features(x)
  )
  one, two = (jr.attack_images(Constant(), model, images, labels, options=SLOTS) for model in (classifier, doubled))
  np.testing.assert_allclose(2 * one.distance, two.distance, rtol=1e-5)
  assert bind_threat(Constant(), doubled).threat.network is doubled


@pytest.mark.ci
def test_each_kind_of_attack_gives_the_same_on_one_device_and_on_four(tmp_path):
  one, four = run(1, tmp_path, "kinds"), run(4, tmp_path, "kinds")
  assert one["devices"] == 1 and four["devices"] == 4
  for name, columns in one["kinds"].items():
    for column, values in columns.items():
      np.testing.assert_allclose(values, four["kinds"][name][column], rtol=1e-5, atol=1e-6, err_msg=f"{name} {column}")
    assert any(columns["success"]), name
