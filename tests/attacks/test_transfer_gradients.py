"""Transfer attacks: per example against torchattacks, against each other where draws vanish, by hand elsewhere."""

from __future__ import annotations

import dataclasses
import functools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.fft
import scipy.ndimage

from jaxrobust.attacks.mim import MIM, Variance
from jaxrobust.attacks.registry import attack_config, attack_id, make_attack
from jaxrobust.attacks.views import DiverseInputs, Gaussian, Placement, cosines, shrunk
from jaxrobust.core.errors import JaxrobustError
from jaxrobust.core.types import Cost, Problem
from tests.golden.transfer_draws import PLACEMENTS, SIDE, STEPS, neighbor

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "transfer_points.json").read_text())
KEY = jax.random.key(5)
STEP_KEYS = np.stack([jax.random.key_data(jax.random.split(jax.random.fold_in(KEY, step))) for step in range(STEPS)])
NAMES = ("ni-fgsm", "si-ni-fgsm", "dim", "tim", "vmi-fgsm", "vni-fgsm", "admix", "ssa")


def channels_last(rows) -> np.ndarray:
  return np.asarray(rows, np.float32).reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)


IMAGES = channels_last(GOLDEN["images"])


def toy(image):
  first, bias, second = (jnp.asarray(GOLDEN[name], jnp.float32) for name in ("first", "bias", "second"))
  return second @ jnp.sin(first @ image.transpose(2, 0, 1).ravel() + bias)


def ends(attack, goal: str = "labels", key=KEY) -> np.ndarray:
  """Returns where the attack stands on each image after all its steps."""
  labels = jnp.asarray(GOLDEN["labels"])
  targets = jnp.asarray(GOLDEN["targets"]) if goal == "targets" else jnp.full(len(labels), -1)
  problems = Problem(jnp.asarray(IMAGES), labels, targets, jnp.full(len(labels), GOLDEN["eps"]), key)
  return np.asarray(run(attack, problems))


@functools.partial(jax.jit, static_argnums=0)
def run(attack, problems):
  def one(problem):
    step = lambda _, state: attack.step(toy, problem, state)[0]
    return attack.candidate(problem, jax.lax.fori_loop(0, attack.num_steps, step, attack.init(problem)))

  return jax.vmap(one, in_axes=(Problem(0, 0, 0, 0, None),))(problems)


def step_of(key, part: int):
  """Returns the number of the step that a key belongs to."""
  return jnp.argmax(jnp.all(STEP_KEYS[:, part] == jax.random.key_data(key), axis=1))


@dataclasses.dataclass(frozen=True)
class GivenPlaces(DiverseInputs):
  """Places from a table."""

  def draw(self, key, shape):
    height, top, left = jnp.asarray(PLACEMENTS)[step_of(key, 0)]
    return Placement(jnp.ones((), bool), height, top, left)


@dataclasses.dataclass(frozen=True)
class GivenNeighbors(Variance):
  """Neighbors from a table."""

  def offsets(self, norm, key, shape):
    rows = [[neighbor(step, number) for number in range(self.neighbors)] for step in range(STEPS)]
    table = np.stack([channels_last(row) for row in rows])
    return self.beta * jnp.asarray(table)[step_of(key, 1)]


def made(name: str, **parameters):
  return make_attack(name, num_steps=STEPS, **parameters)


OURS = {
  "mim": made("mim", step_size=1 / STEPS),
  "ni-fgsm": made("ni-fgsm"),
  "si-ni-fgsm": made("si-ni-fgsm", scales=4),
  "dim": dataclasses.replace(made("dim"), views=GivenPlaces(1.0, 0.5)),
  "dim-never": made("dim", probability=0.0),
  "tim": made("tim", probability=0.0),
  "tim-small": dataclasses.replace(made("tim", kernel=3, sigma=2.0), views=GivenPlaces(1.0, 0.5)),
  "vmi-fgsm": dataclasses.replace(made("vmi-fgsm"), tuning=GivenNeighbors(3, 1.5)),
  "vni-fgsm": dataclasses.replace(made("vni-fgsm"), tuning=GivenNeighbors(3, 1.5)),
}


@pytest.mark.parametrize("goal", ["labels", "targets"])
@pytest.mark.parametrize("name", OURS)
def test_points_equal_those_of_torchattacks_with_the_same_draws(name, goal):
  wanted = channels_last(GOLDEN["runs"][f"{name}/{goal}"])
  assert np.abs(wanted - IMAGES).max() > 0.9 * GOLDEN["eps"]
  np.testing.assert_allclose(ends(OURS[name], goal), wanted, atol=2e-6)


def test_the_recorded_runs_differ():
  runs = {name: np.asarray(end) for name, end in GOLDEN["runs"].items() if name != "dim-never/labels"}
  names = [name for name in runs if name.endswith("/labels")]
  for one in names:
    assert all(np.abs(runs[one] - runs[other]).max() > 0.01 for other in names if other != one), one


@pytest.mark.parametrize(
  ("attack", "same"),
  [
    (("dim", {"probability": 0.0}), ("mim", {"step_size": 0.2})),
    (("tim", {"kernel": 1, "probability": 0.5}), ("dim", {})),
    (("si-ni-fgsm", {"scales": 1}), ("ni-fgsm", {})),
    (("ni-fgsm", {"decay": 0.0}), ("mim", {"step_size": 0.2, "decay": 0.0})),
    (("ssa", {"rho": 0.0, "noise": 0.0, "decay": 1.0}), ("mim", {"step_size": 0.2})),
    (("vmi-fgsm", {"beta": 0.0}), ("mim", {"step_size": 0.2})),
  ],
)
def test_what_draws_nothing_is_the_attack_without_it(attack, same):
  (name, parameters), (other, others) = attack, same
  one, two = ends(made(name, norm="l2", **parameters)), ends(made(other, norm="l2", **others))
  np.testing.assert_allclose(one, two, atol=2e-6)


@pytest.mark.parametrize("name", ["tim", "vni-fgsm", "ssa"])
def test_other_keys_draw_other_points(name):
  assert np.abs(ends(made(name)) - ends(made(name), key=jax.random.key(6))).max() > 0.001


@pytest.mark.parametrize(
  ("name", "parameters", "cost"),
  [
    ("mim", {}, Cost(1, 1, 1)),
    ("ni-fgsm", {}, Cost(2, 1, 1)),
    ("si-ni-fgsm", {}, Cost(6, 5, 5)),
    ("si-ni-fgsm", {"scales": 1}, Cost(2, 1, 1)),
    ("dim", {}, Cost(2, 1, 1)),
    ("dim", {"probability": 0.0}, Cost(1, 1, 1)),
    ("tim", {}, Cost(2, 1, 1)),
    ("vmi-fgsm", {}, Cost(21, 21, 20)),
    ("vni-fgsm", {"neighbors": 5}, Cost(7, 6, 5)),
    ("admix", {}, Cost(16, 15, 15)),
    ("ssa", {}, Cost(21, 20, 20)),
  ],
)
def test_costs_are_gradients_and_a_look_where_none_is_taken_at_the_point(name, parameters, cost):
  assert make_attack(name, **parameters).cost == cost


def test_defaults_are_those_of_the_authors():
  for name in NAMES:
    attack = make_attack(name)
    assert (attack.num_steps, attack.step_size, attack.random_start) == (10, 0.1, False)
    assert attack.decay == (0.0 if name == "ssa" else 1.0)
    assert make_attack(name, num_steps=20).step_size == 0.05


def test_ids_and_configs_name_the_parameters_of_pieces():
  assert attack_id(make_attack("dim", norm="l2")) == "l2-dim-10"
  odd = make_attack("tim", num_steps=20, probability=0.7, smallest=0.85, step_size=0.125)
  assert attack_id(odd) == "linf-tim-20,step_size=0.125,probability=0.7,smallest=0.85"
  assert attack_id(make_attack("vmi-fgsm", neighbors=10)) == "linf-vmi-fgsm-10,neighbors=10"
  assert attack_config(odd)["kernel"] == 15 and "views" not in attack_config(odd)
  plain = {"norm": "linf", "num_steps": 10, "step_size": 0.2, "decay": 1.0, "random_start": False, "loss": "ce"}
  assert attack_config(MIM()) == {"attack": "MIM", **plain, "name": "mim"}


@pytest.mark.parametrize(
  ("name", "parameters", "reason"),
  [
    ("tim", {"kernel": 4}, "kernel must be odd, or it shifts the gradient, got 4"),
    ("dim", {"probability": 1.5}, r"probability must be in \[0, 1\]"),
    ("dim", {"smallest": 0.0}, r"smallest in \(0, 1\]"),
    ("admix", {"mixed": 9}, "mixed must be at most 8"),
    ("vmi-fgsm", {"norm": "l1"}, "unknown norm 'l1'"),
    ("si-ni-fgsm", {"scales": 0}, "scales must be an integer of at least 1, got 0"),
  ],
)
def test_what_means_nothing_is_refused(name, parameters, reason):
  with pytest.raises(JaxrobustError, match=reason):
    make_attack(name, **parameters)


def test_placements_cover_every_size_and_corner_and_stay_inside():
  draw = jax.jit(jax.vmap(lambda key: DiverseInputs(0.5, 0.9).draw(key, (20, 30, 3))))
  place = jax.tree.map(np.asarray, draw(jax.random.split(jax.random.key(0), 4000)))
  assert set(place.height) == {18, 19, 20} and 0.45 < place.used.mean() < 0.55
  assert (place.top + place.height <= 20).all() and (place.left + np.round(place.height * 1.5) <= 30).all()
  small = place.height == 18
  assert set(place.top[small]) == {0, 1, 2} and set(place.left[small]) == {0, 1, 2, 3}


def test_a_smaller_image_lies_where_it_was_put_on_black():
  image = jnp.ones((10, 20, 3))
  seen = np.asarray(shrunk(image, Placement(*map(jnp.asarray, (True, 6, 3, 5)))))
  wanted = np.zeros((10, 20, 3))
  wanted[3:9, 5:17] = 1
  np.testing.assert_allclose(seen, wanted, atol=1e-6)


def test_kernel_and_cosines_are_those_of_scipy():
  image = np.random.default_rng(0).normal(size=(12, 9, 3)).astype(np.float32)
  line = np.exp(-(np.linspace(-3, 3, 15) ** 2) / 2)
  kernel = np.outer(line, line)[..., None] / line.sum() ** 2
  wanted = scipy.ndimage.correlate(image, kernel, mode="constant")
  np.testing.assert_allclose(Gaussian(15, 3.0)(jnp.asarray(image)), wanted, atol=1e-5)
  np.testing.assert_allclose(cosines(12) @ image[:, 0], scipy.fft.dct(image[:, 0], axis=0, norm="ortho"), atol=1e-5)
  np.testing.assert_allclose(cosines(12) @ cosines(12).T, np.eye(12), atol=1e-6)


def test_admix_shows_different_others_at_every_scale():
  views = make_attack("admix", mixed=3, scales=2).views
  others = jnp.arange(8.0)[:, None, None, None] * jnp.ones((8, 4, 4, 3)) / 10
  problem = Problem(*jnp.zeros(4), KEY, None, others)
  image = jnp.full((4, 4, 3), 0.5)
  show = jax.jit(jax.vmap(lambda number: views.show(KEY, problem, image, number)))
  seen = np.asarray(show(jnp.arange(6)))[:, 0, 0, 0]
  np.testing.assert_allclose(seen[1::2], seen[::2] / 2, rtol=1e-6)
  mixed = np.round((seen[::2] - 0.5) / 0.02).astype(int)
  assert len(set(mixed)) == 3 and set(mixed) <= set(range(8))
