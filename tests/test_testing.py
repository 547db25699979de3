"""`check_attack` finds what an attack does wrong, and names the claim."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrobust as jr
from jaxrobust import testing
from jaxrobust.testing.checks import _same
from jaxrobust.testing.steps import check_steps
from tests.guide_attacks import guide_attacks

GUIDE = guide_attacks()


def fails(attack, claim: str, eps: float = 0.05) -> None:
  with pytest.raises(AssertionError, match=claim):
    testing.check_attack(attack, eps)


@dataclasses.dataclass(frozen=True)
class Greedy(GUIDE.SignDescent):
  """Differentiates what it may only look at."""

  access = "score"
  cost = jr.Cost(1, 0)


@dataclasses.dataclass(frozen=True)
class Cheap(GUIDE.SignDescent):
  """Takes gradients that its cost does not name."""

  cost = jr.Cost(1, 0)


@dataclasses.dataclass(frozen=True)
class Curious(GUIDE.Bisect):
  """Takes an answer for logits."""

  def step(self, model, problem, state):
    return super().step(lambda image: jnp.argmax(model(image)[:3]) != problem.label, problem, state)


def test_an_attack_that_uses_more_than_it_declares_fails():
  fails(Greedy(), "no more than it declares .*access 'score'.* attack Greedy differentiates the model")
  fails(Cheap(), "no more than it declares .*backward=0")
  fails(Curious(), "no more than it declares .*access 'decision'", 4.0)


@dataclasses.dataclass(frozen=True)
class Miscounted(GUIDE.NES):
  """Reports the pairs as one query each."""

  def step(self, model, problem, state):
    state, probe = super().step(model, problem, state)
    return state, probe._replace(queries=self.pairs + 1)


@dataclasses.dataclass(frozen=True)
class Frozen(GUIDE.NES):
  """Asks all its queries with one draw."""

  def step(self, model, problem, state):
    return super().step(lambda image, draw=0: model(image), problem, state)


@dataclasses.dataclass(frozen=True)
class Underpriced(GUIDE.NES):
  """Costs more than it says."""

  cost = jr.Cost(forward=5, backward=0)


@dataclasses.dataclass(frozen=True)
class Branching(GUIDE.SignDescent):
  """Looks twice on every other step, and says so."""

  honest: bool = True
  cost = jr.Cost(2, 1)

  def init(self, problem):
    return problem.image, jnp.zeros((), jnp.int32)

  def step(self, model, problem, state):
    image, number = state
    twice = number % 2 == 1
    image, probe = super().step(model, problem, image)
    more = jax.lax.cond(twice, lambda: jnp.sum(model(problem.image)), lambda: 0.0)
    queries = jnp.where(twice & self.honest, 2, 1)
    return (image + 0.0 * more, number + 1), probe._replace(queries=queries, point_query=1)

  def candidate(self, problem, state):
    return state[0]


@dataclasses.dataclass(frozen=True)
class TwoGradients(GUIDE.SignDescent):
  """Takes a gradient for every term of its loss, from one query."""

  def step(self, model, problem, image):
    logits, back = jax.vjp(model, image)
    rows = jax.vmap(lambda row: back(row)[0])(jnp.eye(testing.CLASSES)[:2])
    state, probe = super().step(lambda x: logits, problem, image)
    return state + 0.0 * rows.sum(), probe


def test_queries_are_compared_with_the_evaluations_made():
  fails(TwoGradients(), r"no more gradients than its cost: 2 taken, Cost\(backward=1\)")
  fails(Miscounted(), "reports the queries it makes: 11 reported, 21 made")
  fails(Underpriced(), "no more queries than its cost: 21 made")
  fails(Branching(honest=False), "reports the queries it makes: 1 reported, 2 made")
  check_steps(Branching(), 0.05, False)


def test_queries_that_share_a_draw_are_found():
  fails(Frozen(), r"draws anew; inside vmap or a loop call model\(image, draw=i\)")


@dataclasses.dataclass(frozen=True)
class Straying(GUIDE.SignDescent):
  """Steps out of its ball."""

  def step(self, model, problem, image):
    moved, probe = super().step(model, problem, image)
    return jnp.clip(image + 2 * (moved - image), 0.0, 1.0), probe


@dataclasses.dataclass(frozen=True)
class Unwitnessed(GUIDE.Recolor):
  """Reports other gains than it drew with."""

  def step(self, model, problem, gains):
    gains, probe = super().step(model, problem, gains)
    return gains, probe._replace(witness=0.5 * probe.witness)


def test_points_outside_the_ball_and_wrong_witnesses_are_found():
  fails(Straying(), "every point evaluated is in the ball", 0.01)
  fails(Unwitnessed(), "every point evaluated is what its witness renders", 0.3)


@pytest.mark.parametrize("part", ["success", "queries", "nan", "flat", "distance", "reached_step", "reached_query"])
def test_layouts_are_compared_by_whole_results(part):
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 4)
  result = jr.attack_images(GUIDE.NearestLine(), classifier, images, labels, batch_size=4, budgets=(0.5,))
  _same(result, result, np.arange(4), "batch size")
  value = result._asdict()[part]
  other = result._replace(**{part: ~value if value.dtype == bool else value + 1})
  with pytest.raises(AssertionError, match=f"the batch size does not matter for {part}"):
    _same(result, other, np.arange(4), "batch size")
