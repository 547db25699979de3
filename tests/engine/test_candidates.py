"""What a candidate that is judged before its step costs: the same in every layout, and never more than the budget."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np

import jaxrobust as jr


@dataclasses.dataclass(frozen=True)
class Wide(jr.Threat):
  """linf with a tolerance that a point can lie in."""

  name: str = "wide"

  def distance(self, original, image, witness=None):
    return jnp.max(jnp.abs(image - original))

  def tolerance(self, shape):
    return 1e-3


@dataclasses.dataclass(frozen=True)
class Edge:
  """Goes to a point just inside the budget, or beyond it by three quarters of the tolerance."""

  num_steps: int = 6
  threat: jr.Threat = Wide()
  minimal = False
  access = "gradient"
  cost = jr.Cost(1, 1)
  may_leave_ball = True

  def init(self, problem):
    return problem.image

  def step(self, model, problem, image):
    point = jr.loss_and_grad(model, lambda logits: logits[1] - logits[0], image)
    length = jnp.where(problem.image[0, 0, 0] > 0.5, problem.eps + 7.5e-4, problem.eps - 1e-3)
    return jnp.clip(problem.image + length, 0.0, 1.0), point.probe

  def candidate(self, problem, image):
    return image


def test_a_look_ahead_counts_what_a_step_counts():
  """Whether candidates are judged before their step follows the layout; what an example costs must not."""
  classifier = jr.Classifier.from_function(lambda x: jnp.stack([0.05 + 0 * x[:, 0, 0, 0], x[:, 1, 1, 0] - 0.4], 1), 2)
  images = np.full((32, 4, 4, 3), 0.4, np.float32)
  images[::4, 0, 0, 0] = 0.6
  counts = [
    jr.attack_images(
      Edge(), classifier, images, np.zeros(32, int), eps=0.1, options=jr.EngineOptions.for_platform(size, shrink=False)
    ).queries.tolist()
    for size in (1, 16)
  ]
  assert counts[0] == counts[1] and len(set(counts[0])) == 2


@dataclasses.dataclass(frozen=True)
class Waiting:
  """Stays where it is; the candidate after its last step is one query more."""

  max_queries: int = 10
  threat = jr.Norm("linf")
  minimal = False
  access = "score"
  cost = jr.Cost(1, 0)
  num_steps = property(lambda self: self.max_queries)

  def init(self, problem):
    return problem.image

  def step(self, model, problem, image):
    return image, jr.Probe(image, model(image), queries=1)

  def candidate(self, problem, image):
    return image


def test_the_last_candidate_is_within_the_budget_of_queries():
  classifier = jr.Classifier.from_function(lambda x: jnp.stack([5.0 + 0 * x.mean((1, 2, 3)), x.mean((1, 2, 3))], 1), 2)
  images = np.full((2, 4, 4, 3), 0.4, np.float32)
  result = jr.attack_images(Waiting(), classifier, images, np.zeros(2, int), eps=0.02, batch_size=2)
  assert result.queries.tolist() == [10, 10]
