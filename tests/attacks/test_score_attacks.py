"""Score-based attacks: what linear classifiers give away, exact counts of queries, each search by its definition."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.attacks import norms
from jaxrobust.attacks.bandits import Bandits, enlarged
from jaxrobust.attacks.coordinates import shuffled
from jaxrobust.attacks.nattack import NAttack
from jaxrobust.attacks.nes import NES
from jaxrobust.attacks.registry import attack_id, make_attack
from jaxrobust.attacks.signhunter import SignHunter
from jaxrobust.attacks.simba import SimBA
from jaxrobust.attacks.spsa import SPSA
from jaxrobust.attacks.zoo import ZOO
from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.core.threefry import normal
from jaxrobust.core.types import Problem
from jaxrobust.engine.api import attack_images
from tests.attacks import minimal_distance as md

# Attack, and by how much its budget exceeds the least that there is: what noise costs it. Random directions would need
# five times as much.
BUDGET = [
  (NES(queries=3000, pairs=50), 1.2),
  (NES("l2", queries=3000, pairs=50, momentum=0.5), 1.2),
  (SPSA("l2", queries=3000, pairs=50, step_size=0.1), 1.2),
  (NAttack(queries=8000, samples=80), 1.25),
  (Bandits(queries=2000, tiles=4), 1.3),
  (SimBA("l2", queries=3000, length=0.05, basis="dct"), 1.3),
  (SignHunter(queries=100), 1.01),
]
NAMED = pytest.mark.parametrize(("attack", "more"), [pytest.param(*row, id=attack_id(row[0])) for row in BUDGET])


@NAMED
def test_a_linear_classifier_falls_just_beyond_its_distance_and_never_before(attack, more):
  images, labels = md.gray()
  wanted = md.closed_form(attack.norm, images, labels)
  classifier = md.linear()
  options = {"options": md.slots(2)} if attack.cost.parallel > 1 else {"options": md.slots(12)}
  # One budget for each image: attack_images has one for all, so images are told apart by theirs.
  order = np.argsort(wanted)[:: len(wanted) // 3]
  for row in order:
    one = attack_images(attack, classifier, images[[row]], labels[[row]], eps=float(more * wanted[row]), **options)
    none = attack_images(attack, classifier, images[[row]], labels[[row]], eps=float(0.98 * wanted[row]), **options)
    assert one.success.all() and not none.success.any()
    assert none.queries[0] <= attack.queries and one.queries[0] <= attack.queries
    if attack.cost.forward > 1:  # Whole steps, and the look that saw the success or the last point.
      assert one.queries[0] % attack.cost.forward == 1 and none.queries[0] == attack.num_steps * attack.cost.forward + 1
    else:
      assert none.queries[0] == attack.queries


def test_zoo_finds_the_closed_form_distance():
  excess = md.excess(ZOO(queries=12_000, step_size=0.002, binary_search_steps=6, initial_const=0.05))
  assert excess.min() > -1e-3 and np.median(excess) < 0.05 and excess.max() < 0.15


def test_zoo_counts_whole_steps():
  images, labels = md.gray(3)
  attack = ZOO(queries=1000, coordinates=2, abort_early=False)
  result = attack_images(attack, md.linear(), images, labels, options=md.slots(4))
  assert attack.cost.forward == 5 and (result.queries <= 1000).all() and (result.queries % 5 == 0).all()


SHAPE = (3, 4, 2)
RNG = np.random.default_rng(1)
WEIGHTS = RNG.normal(size=(3, *SHAPE))
IMAGE = RNG.uniform(0.3, 0.7, SHAPE).astype(np.float32)


def scores(image, number=0):
  return jnp.stack([jnp.sum(jnp.asarray(w, jnp.float32) * image) for w in WEIGHTS])


def margin(image):
  found = [np.sum(w * image) for w in WEIGHTS]
  return max(found[1:]) - found[0]


def log_odds(image):
  found = np.array([np.sum(w * image) for w in WEIGHTS])
  return np.log(np.exp(found).sum()) - found[0]


def problem_of(eps: float) -> Problem:
  return Problem(jnp.asarray(IMAGE), jnp.int32(0), jnp.int32(-1), jnp.float32(eps), jax.random.key(4))


def run(attack, problem, count):
  """Probes and states of some steps."""
  step, state, found = jax.jit(lambda state: attack.step(scores, problem, state)), attack.init(problem), []
  for _ in range(count):
    state, probe = step(state)
    found.append((np.asarray(probe.image), state))
  return found


def test_signhunter_flips_blocks_from_large_to_small():
  eps, flat = 0.05, IMAGE.transpose(2, 0, 1).ravel().astype(np.float64)
  shape = (SHAPE[2], *SHAPE[:2])
  point = lambda s: (flat + eps * s).reshape(shape).transpose(1, 2, 0)
  sign, queries = np.ones(flat.size), [point(np.ones(flat.size))]
  best = margin(queries[0])
  for level in range(6):
    size = -(-flat.size // 2**level)
    for first in range(0, flat.size, size):
      trial = sign.copy()
      trial[first : first + size] *= -1
      queries.append(point(trial))
      if margin(point(trial)) >= best:
        sign, best = trial, margin(point(trial))
  found = run(SignHunter(), problem_of(eps), len(queries))
  np.testing.assert_allclose([image for image, _ in found], queries, atol=1e-6)
  # On a linear score the signs are then those of the gradient, as the source proves.
  other = np.argmax([np.sum(w * point(sign)) for w in WEIGHTS[1:]]) + 1
  assert np.array_equal(sign, np.sign((WEIGHTS[other] - WEIGHTS[0]).transpose(2, 0, 1).ravel()))


@pytest.mark.parametrize("basis", ["pixel", "dct"])
def test_simba_tries_one_direction_then_the_other(basis):
  attack, problem, best = SimBA(length=0.1, basis=basis), problem_of(10.0), IMAGE.astype(np.float64)
  order = np.asarray(shuffled(jax.random.fold_in(problem.key, 0), jnp.arange(24), 24))
  queries, loss = [best], log_odds(best)
  cosines = [np.array([[np.cos(np.pi / n * (i + 0.5) * k) for i in range(n)] for k in range(n)]) for n in SHAPE[:2]]
  for place in order[:12]:
    row, column, channel = np.unravel_index(place, SHAPE)
    vector = np.zeros(SHAPE)
    if basis == "pixel":
      vector[row, column, channel] = 1
    else:
      vector[..., channel] = np.outer(cosines[0][row], cosines[1][column])
      vector /= np.linalg.norm(vector)
    for side in (-1, 1):
      queries.append(np.clip(best + side * 0.1 * vector, 0, 1))
      if log_odds(queries[-1]) > loss:
        best, loss = queries[-1], log_odds(queries[-1])
        break
  found = run(attack, problem, len(queries))
  np.testing.assert_allclose([image for image, _ in found], queries, atol=1e-6)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_bandits_correct_their_prior_by_two_queries(norm):
  attack, problem, eps = Bandits(norm, tiles=2), problem_of(0.1), 0.1
  assert enlarged(jnp.zeros((2, 2, 2)), SHAPE).shape == SHAPE
  prior, point = np.zeros((2, 2, 2)), IMAGE.astype(np.float64)
  up = lambda tiles: tiles[[0, 0, 1]][:, [0, 0, 1, 1]]
  states = run(attack, problem, 4)
  for number, (image, state) in enumerate(states):
    np.testing.assert_allclose(image, point, atol=2e-4)
    noise = np.asarray(normal(jax.random.fold_in(problem.key, number), (2, 2, 2)), np.float64) / np.sqrt(8)
    sides = [up(prior + side * attack.delta * noise) for side in (1, -1)]
    scored = [log_odds(point + attack.eta * q / np.linalg.norm(q)) for q in sides]
    slope = (scored[0] - scored[1]) / (attack.eta * attack.delta) * attack.delta * noise
    if norm == "linf":  # Exponentiated gradients, as the authors write them.
      real = (prior + 1) / 2
      above, below = real * np.exp(100.0 * slope), (1 - real) * np.exp(-100.0 * slope)
      prior = 2 * above / (above + below) - 1
      point = np.clip(point + 0.2 * eps * np.sign(up(prior)), IMAGE - eps, IMAGE + eps)
    else:
      prior = prior + 0.1 * slope
      point = point + 0.1 * eps * up(prior) / np.linalg.norm(up(prior))
    np.testing.assert_allclose(attack._values(state.prior), prior, atol=2e-3)


def test_nattack_moves_its_mean_along_standardized_scores():
  attack, problem = NAttack(samples=6), problem_of(0.1)
  before = np.asarray(attack.init(problem).mean, np.float64)
  ((image, state),) = run(attack, problem, 1)
  key = jax.random.fold_in(problem.key, 0)
  noise = np.stack([np.asarray(normal(jax.random.fold_in(key, i), SHAPE), np.float64) for i in range(6)])
  place = lambda w: np.clip(0.5 * np.tanh(np.arctanh(2 * IMAGE - 1) + w) + 0.5, IMAGE - 0.1, IMAGE + 0.1)
  losses = np.array([margin(place(before + 0.1 * u)) for u in noise])
  z = (losses - losses.mean()) / losses.std()
  np.testing.assert_allclose(image, place(before), atol=1e-5)
  np.testing.assert_allclose(state.mean, before + 0.02 / 0.1 * np.mean(z[:, None, None, None] * noise, 0), atol=1e-4)


def test_zoo_descends_one_coordinate():
  attack, problem = ZOO(initial_const=2.0), problem_of(np.inf)
  ((image, state),) = run(attack, problem, 1)
  (place,) = np.flatnonzero(np.asarray(state.times))
  unit = np.zeros(24)
  unit[place] = 1e-4
  slope = margin(IMAGE + unit.reshape(SHAPE)) - margin(IMAGE - unit.reshape(SHAPE))
  moved = np.asarray(state.image - IMAGE.ravel())
  assert np.flatnonzero(moved).tolist() == [place] and np.array_equal(image, IMAGE)
  assert moved[place] == pytest.approx(0.01 * np.sign(slope), rel=1e-3)  # Adam's first step has its full length.


def test_ids_say_queries_and_settings_of_the_authors_have_names():
  assert attack_id(NES()) == "linf-nes-20000" and attack_id(NES("l2", 2000, 50)) == "l2-nes-2000,pairs=50"
  assert attack_id(make_attack("nes-authors")) == "linf-nes-authors-10000"
  assert attack_id(make_attack("bandits", norm="l2")) == "l2-bandits-20000"
  assert make_attack("nattack-authors").samples == 300 and make_attack("zoo-authors").num_steps == 1000
  assert make_attack("simba-dct", frequencies=8).basis == "dct" and make_attack("spsa-authors").num_steps == 100


def test_refusals():
  with pytest.raises(UnknownNameError):
    NES("l1")
  with pytest.raises(UnknownNameError):
    SimBA(basis="pixels")
  with pytest.raises(InputError):
    SignHunter(queries=0)
  assert norms.distance("l2", jnp.zeros(3)) == 0
