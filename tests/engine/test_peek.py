"""Judging a candidate before the gradient changes no verdict: how often it is done depends on the batch."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrobust as jr
from jaxrobust.core.errors import InputError


def dark_is_right(images):
  mean = images.mean((1, 2, 3))
  return jnp.stack([jnp.full(len(images), 0.5), mean], 1) + jnp.where(mean > 0.45, jnp.nan, 0.0)[:, None]


def test_outputs_that_are_no_numbers_are_counted_alike_however_they_are_found():
  images = np.random.default_rng(0).uniform(0.3, 0.4, (40, 4, 4, 3)).astype(np.float32)
  classifier = jr.Classifier.from_function(dark_is_right, 2)
  attack = jr.make_attack("pgd", num_steps=4)
  for size in (1, 7, 64):
    result = jr.attack_images(attack, classifier, images, np.zeros(40, int), eps=0.25, batch_size=size)
    assert result.success.all() and (result.nan == 1).all() and (result.queries == 2).all()


@dataclasses.dataclass(frozen=True)
class Climb:
  """Asks three queries a step, the first of them at its candidate, and does not say so."""

  num_steps: int = 4
  threat = jr.Norm("linf")
  minimal = False
  access = "score"
  cost = jr.Cost(forward=3, backward=0)

  def init(self, problem):
    return problem.image

  def candidate(self, problem, state):
    return state

  def step(self, model, problem, state):
    logits = model(state)
    more = model(1 - state)[0] + model(state / 2)[0]
    moved = jnp.clip(state + problem.eps / 2 + 0 * more, problem.image - problem.eps, problem.image + problem.eps)
    return jnp.clip(moved, 0, 1), jr.Probe(state, logits, queries=3)


def bright_is_wrong(images):
  return jnp.stack([jnp.full(len(images), 0.5), images.mean((1, 2, 3))], 1)


def test_an_attack_of_many_queries_with_a_candidate_says_when_it_looks_there():
  images = np.random.default_rng(0).uniform(0.3, 0.4, (40, 4, 4, 3)).astype(np.float32)
  classifier = jr.Classifier.from_function(bright_is_wrong, 2)
  with pytest.raises(InputError, match="point_query"):
    jr.attack_images(Climb(), classifier, images, np.zeros(40, int), eps=0.25)
