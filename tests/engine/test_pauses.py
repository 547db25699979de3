"""Items that are judged after some of their steps, and go on."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrobust as jr
from jaxrobust.attacks.all_steps import AllSteps
from jaxrobust.attacks.schedule import Stage
from jaxrobust.engine.api import ExampleArrays
from jaxrobust.engine.scheduler import Engine


@dataclasses.dataclass(frozen=True)
class Count:
  """Brightens by a hundredth at each of two steps, and has nothing to try after them."""

  limited: bool = False
  num_steps: int = 6
  threat = jr.Norm("linf")
  minimal = False
  access = "score"
  cost = jr.Cost(forward=1, backward=0)
  max_queries = property(lambda self: 2 if self.limited else None)

  def init(self, problem):
    return jnp.zeros((), jnp.int32)

  def candidate(self, problem, state):
    return problem.image + 0.01 * state

  def step(self, model, problem, state):
    image = self.candidate(problem, state)
    return state + 1, jr.Probe(image, model(image), queries=1, done=(state >= 1) & (not self.limited))


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("steps", [1, 4])
def test_an_item_with_nothing_left_to_try_is_not_sent_on(limited, steps):
  brightness = jr.Classifier.from_function(lambda x: jnp.stack([x.mean((1, 2, 3)), 0 * x.mean((1, 2, 3))], 1), 2)
  images = np.full((3, 2, 2, 3), 0.5, np.float32)
  source = ExampleArrays(np.arange(3), images, np.zeros(3, int), np.full(3, -1))
  schedule = AllSteps(Stage(Count(limited)), (0.1, 0.2), (1, 2, 4, 6))
  options = jr.EngineOptions.for_platform(2, steps_per_dispatch=steps, shrink=False)
  for verdict in Engine(brightness, schedule, source, eps=0.1, victims=[brightness], options=options).run():
    assert verdict.queries == 4, "two at each budget"
    for eps in (0.1, 0.2):
      seen = [verdict.answers[eps, stop, 0][0] for stop in (1, 2, 4, 6)]
      np.testing.assert_allclose(seen, [0.51, 0.52, 0.52, 0.52], rtol=1e-6)
