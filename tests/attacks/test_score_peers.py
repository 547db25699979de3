"""Score-based attacks against other implementations: one gradient exactly, success rates over seeds.

Theirs are in score_peers.json (`make_score_peers.py`). NES, NATTACK, bandits and SignHunter have no form in a published
package that runs today; ART's ZOO runs, but is not what its source describes (see `attacks/zoo.py`).
"""

from __future__ import annotations

import functools
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.attacks.estimates import estimate_gradient
from jaxrobust.attacks.losses import margin
from jaxrobust.attacks.simba import SimBA
from jaxrobust.attacks.spsa import SPSA
from jaxrobust.core.types import Problem
from jaxrobust.engine.api import attack_images
from tests import realdata

PEERS = json.loads((pathlib.Path(__file__).parents[1] / "golden" / "score_peers.json").read_text())


def test_the_gradient_of_torchattacks_with_its_own_signs():
  golden = PEERS["gradient"]
  weights, image, signs = (jnp.asarray(golden[name], jnp.float32) for name in ("weights", "image", "signs"))

  def score(point, number):
    del number
    return margin(jnp.sin(weights @ point.ravel()), 0, -1)

  found = jax.jit(lambda x: estimate_gradient(score, x, lambda i: signs[i], len(signs), golden["delta"]).grad)(image)
  np.testing.assert_allclose(found, golden["gradient"], rtol=1e-3, atol=2e-5)


@functools.cache
def rates(attack, eps: float) -> tuple[float, ...]:
  """Success rates over three seeds, among the images that the network gets right."""
  images, labels = realdata.cifar10_test(PEERS["images"])
  network = realdata.cifar10_network(PEERS["network"])
  found = [attack_images(attack, network, images, labels, eps=eps, seed=seed) for seed in range(3)]
  assert found[0].correct.sum() == PEERS["right"]
  return tuple(float(result.success[result.correct].mean()) for result in found)


def check_same(ours: tuple[float, ...], theirs: list[float]) -> None:
  """Both rates are of the same images: their means over seeds must be within the 95 % interval of a difference."""
  share = np.mean([*ours, *theirs])
  spread = np.sqrt(2 * share * (1 - share) / (PEERS["right"] * len(theirs)))
  assert abs(np.mean(ours) - np.mean(theirs)) <= 1.96 * spread, (ours, theirs)


@realdata.needs_data
@pytest.mark.slow
def test_spsa_succeeds_as_often_as_that_of_torchattacks():
  options = PEERS["spsa"]["options"]
  pairs, steps = options["nb_sample"], options["nb_iter"]
  attack = SPSA(
    queries=steps * (2 * pairs + 1) + 1, pairs=pairs, sigma=options["delta"], step_size=options["lr"] / options["eps"]
  )
  assert attack.num_steps == steps
  check_same(rates(attack, options["eps"]), PEERS["spsa"]["success"])


def within_vectors(attack: SimBA, vectors: int, seed: int) -> float:
  """The success rate once so many basis vectors have been tried, however many queries they took."""
  images, labels = realdata.cifar10_test(PEERS["images"])
  network = realdata.cifar10_network(PEERS["network"])
  right = np.asarray(network(images)).argmax(1) == labels

  def one(image, label, key):
    problem = Problem(image, label, jnp.int32(-1), jnp.float32(100.0), key)

    def step(_, carry):
      state, found = carry
      after, probe = attack.step(lambda x: network(x[None])[0], problem, state)
      found |= (state.number < vectors) & (jnp.argmax(probe.logits) != label)
      return after, found

    return jax.lax.fori_loop(0, 2 * vectors + 1, step, (attack.init(problem), jnp.zeros((), bool)))[1]

  keys = jax.random.split(jax.random.key(seed), int(right.sum()))
  return float(jax.jit(jax.vmap(one))(jnp.asarray(images[right]), jnp.asarray(labels[right]), keys).mean())


@realdata.needs_data
@pytest.mark.slow
def test_simba_succeeds_as_often_as_that_of_art():
  """ART asks for both directions of every vector and has no bound; ours for the second only where the first fails."""
  options = PEERS["simba"]["options"]
  attack = SimBA(length=options["epsilon"])
  ours = [within_vectors(attack, options["max_iter"], seed) for seed in range(3)]
  check_same(tuple(ours), PEERS["simba"]["success"])
  # At as many queries as theirs, which takes two for every vector, ours is at least as strong.
  equal = rates(SimBA(queries=2 * options["max_iter"], length=options["epsilon"]), 100.0)
  assert np.mean(equal) >= np.mean(ours)
