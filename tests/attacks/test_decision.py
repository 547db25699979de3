"""Decision attacks: iterations of foolbox with the same noise, shared pieces, closed forms on linear classifiers."""

from __future__ import annotations

import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust import testing
from jaxrobust.attacks import decision, direction_search
from jaxrobust.attacks.boundary import Boundary
from jaxrobust.attacks.evolutionary import Evolutionary, drawn_by_weight
from jaxrobust.attacks.hopskipjump import HopSkipJump
from jaxrobust.attacks.registry import attack_id, make_attack
from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.core.types import Problem
from jaxrobust.engine.api import attack_images
from tests.attacks import minimal_distance as md

GOLDEN = json.loads((pathlib.Path(__file__).parents[1] / "golden" / "decision_steps.json").read_text())
SHAPE = (4, 4, 1)


def problem(target: int = -1) -> Problem:
  image, start = (jnp.asarray(GOLDEN[name], jnp.float32).reshape(SHAPE) for name in ("image", "start"))
  return Problem(image, jnp.int32(0), jnp.int32(target), jnp.float32(jnp.inf), jax.random.key(0), start)


def given(attack, monkeypatch):
  """Returns the steps of an attack on the golden classifier, their noise an argument."""
  weights, row = jnp.asarray(GOLDEN["weights"], jnp.float32), []
  monkeypatch.setattr(decision, "draw", lambda key, number, size: row[-1])
  monkeypatch.setattr(f"{type(attack).__module__}.gaussian", lambda values: values)

  def step(state, noise):
    row.append(noise)
    return attack.step(lambda image: image.ravel() @ weights + GOLDEN["bias"] > 0, problem(), state)

  return jax.jit(step)


def test_boundary_walks_as_foolbox_does_with_the_same_noise(monkeypatch):
  attack, wanted = Boundary(), GOLDEN["boundary"]
  step = given(attack, monkeypatch)
  approach = decision.approach_from("l2", problem(), problem().start.ravel(), 0)
  state = attack.init(problem())._replace(approach=approach._replace(phase=jnp.int32(decision.ARRIVED)))
  questions = 0
  while int(state.turn) <= len(wanted):
    turn = int(state.turn)
    state, probe = step(state, jnp.asarray(GOLDEN["noise"][turn - 1], jnp.float32))
    questions += int(probe.queries)
    if int(state.turn) > turn:
      np.testing.assert_allclose(state.approach.point, wanted[turn - 1], atol=2e-6)
  assert questions == len(wanted) + len(wanted) // attack.every
  assert np.ptp(np.array(wanted), axis=0).max() > 0.01


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_hopskipjump_jumps_as_foolbox_does_with_the_same_noise(norm, monkeypatch):
  attack, wanted = HopSkipJump(norm=norm, probes=20), GOLDEN["hopskipjump"][norm]
  step = given(attack, monkeypatch)
  rows = iter(np.array(GOLDEN["noise" if norm == "l2" else "uniform"], np.float32))
  bisections = attack.bisections(16)
  state = attack.init(problem())
  state = state._replace(approach=decision.approach_from(norm, problem(), problem().start.ravel(), bisections))
  for number, point in enumerate(wanted):
    while int(state.iteration) <= number or int(state.approach.phase) != decision.ARRIVED:
      probing = int(state.approach.phase) == decision.ARRIVED and int(state.halvings) < 0
      state, _ = step(state, jnp.asarray(next(rows)) if probing else jnp.zeros(16))
    np.testing.assert_allclose(state.approach.point, point, atol=2e-6)


# Queries within which the closed form is met to 2 % by every image.
LINEAR = [
  ("boundary", "l2", 10_000),
  ("evolutionary", "l2", 5000),
  ("hopskipjump", "l2", 5000),
  ("hopskipjump", "linf", 20_000),
  ("sign-opt", "l2", 5000),
  ("opt", "l2", 5000),
  ("rays", "linf", 2000),
  ("geoda", "l2", 5000),
  ("geoda", "linf", 10_000),
  ("surfree", "l2", 1000),
]
# Images of noise have no spectrum that would say where to look.
MORE = {"surfree": {"basis": "random"}}


def starts():
  pool = np.random.default_rng(9).uniform(0.0, 1.0, (64, *md.SHAPE)).astype(np.float32)
  return pool, np.asarray(md.linear()(pool)).argmax(1)


@pytest.mark.parametrize(("name", "norm", "queries"), LINEAR)
def test_reaches_the_closed_form_distance_of_a_linear_classifier(name, norm, queries):
  images, labels = md.gray()
  attack = make_attack(name, norm=norm, queries=queries, **MORE.get(name, {}))
  wanted = md.closed_form(norm, images, labels)
  for targets in (None, 1 - labels):  # Of two classes the other one is the nearest.
    result = attack_images(attack, md.linear(), images, labels, targets=targets, options=md.slots(12), starts=starts())
    assert result.success.all() and (result.queries <= queries).all()
    excess = result.distance / wanted - 1
    assert excess.min() > -1e-3 and excess.max() < 0.02, (excess.max(), targets is None)


def test_every_attack_has_a_small_state_and_makes_no_draw_in_init():
  names = ("boundary", "evolutionary", "hopskipjump", "sign-opt", "opt", "rays", "geoda", "surfree")
  image = jnp.zeros((32, 32, 3))
  large = problem()._replace(image=image, start=image)
  for name in names:
    attack = make_attack(name)
    leaves = jax.tree.leaves(jax.eval_shape(attack.init, large))
    assert sum(leaf.size * leaf.dtype.itemsize for leaf in leaves) <= 3.1 * image.nbytes, name
    assert "threefry" not in str(jax.make_jaxpr(attack.init)(large)), name
    assert attack_id(make_attack(name, queries=123)) == f"{attack.norm}-{name}-123"


def test_norms_and_queries_are_checked():
  with pytest.raises(UnknownNameError, match="l2"):
    Boundary(norm="linf")
  with pytest.raises(InputError, match="queries must be an integer of at least 1, got 0"):
    HopSkipJump(queries=0)


def test_a_decision_attack_that_reads_logits_is_refused():
  class Peeking(Boundary):
    def step(self, model, problem, state):
      return super().step(lambda image: model(image)[problem.label] < 0, problem, state)

  with pytest.raises(AssertionError, match="uses no more than it declares"):
    testing.check_attack(Peeking(queries=4))


def asked(attack, model, problem, steps):
  """Returns the probes of some steps, and the step."""
  step, state = jax.jit(lambda problem, state: attack.step(model, problem, state)), attack.init(problem)
  probes = []
  for _ in range(steps):
    state, probe = step(problem, state)
    probes.append(probe)
  return probes, step


@pytest.mark.parametrize("name", ["boundary", "evolutionary", "hopskipjump", "sign-opt", "opt", "geoda", "surfree"])
def test_where_noise_does_not_help_an_image_of_the_data_set_is_the_start(name, monkeypatch):
  monkeypatch.setattr(decision, "TRIES", 3)
  attack, start = make_attack(name, queries=8), problem().start
  probes, step = asked(attack, lambda image: jnp.max(jnp.abs(image - start)) < 1e-6, problem(), 4)
  assert [bool(probe.logits) for probe in probes] == [False, False, False, True]
  # With a target it is the first point, and where it does not meet the goal there is nowhere to begin.
  aimed = problem(target=1)
  _, first = step(aimed, attack.init(aimed))
  assert bool(first.logits) and not bool(first.done)
  elsewhere = aimed._replace(start=1 - start)
  _, nowhere = step(elsewhere, attack.init(elsewhere))
  assert bool(nowhere.done) and not bool(nowhere.logits)


def test_weighted_draws_follow_the_weights():
  weights = jnp.asarray(np.repeat([1.0, 3.0], 50))
  draws = jax.vmap(lambda number: decision.draw(jax.random.key(3), number, 100))(jnp.arange(400))
  chosen = np.asarray(jax.vmap(lambda values: drawn_by_weight(values, weights, 8.0))(draws))
  # Of 3200 draws three of four fall on the heavy half; standard deviations are about 50 and 40.
  assert abs(chosen.sum() - 3200) < 200 and abs(chosen[:, 50:].sum() - 2400) < 170


def test_windows_slide_and_are_emptied():
  window, answers = decision.no_answers(4), [True, False, False, True, True, True]
  for number, bit in enumerate(answers):
    window = window.push(jnp.asarray(bit), jnp.asarray(True)).push(jnp.asarray(False), jnp.asarray(False))
    assert bool(window.full) == (number >= 3)
  assert float(window.rate) == 0.75 and not bool(window.emptied(jnp.asarray(True)).full)


def test_the_boundary_along_a_direction_is_found_from_either_side():
  for truth in (0.31, 0.905, 2.7):
    search, at, asked = direction_search.fresh(direction_search.NEAR), jnp.float32(0), 0
    known = False
    while not known:
      at = direction_search.looks_at(search, jnp.float32(0.9))
      search, known = direction_search.answered(search, at, at >= truth, 1e-5)
      asked += 1
    assert truth <= float(search.high) <= truth * 1.0001 and asked < 32


def test_evolution_on_a_coarse_grid_stays_in_the_box():
  probes, _ = asked(Evolutionary(queries=20, side=2), lambda image: jnp.mean(image) > 0.3, problem(), 20)
  assert all(float(probe.image.min()) >= 0 and float(probe.image.max()) <= 1 for probe in probes)
  distances = [float(jnp.linalg.norm(probe.image - problem().image)) for probe in probes]
  assert np.isfinite(distances).all()
