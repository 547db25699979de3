"""A user's project as type checkers see it: `test_typing` finds the mistakes marked `error`, and no others."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxrobust as jr


@dataclasses.dataclass(frozen=True)
class RandomSearch:
  """Looks at random corners of the linf ball."""

  num_steps: int = 50
  threat = jr.Norm("linf")
  minimal = False
  access = "score"
  cost = jr.Cost(forward=1, backward=0)

  def init(self, problem: jr.Problem) -> int:
    return 0

  def step(self, model: Any, problem: jr.Problem, step: int) -> tuple[int, jr.Probe]:
    key = jax.random.fold_in(problem.key, step)
    corner = problem.eps * jax.random.rademacher(key, problem.image.shape, jnp.float32)
    image = jnp.clip(problem.image + corner, 0.0, 1.0)
    return step + 1, jr.Probe(image, model(image), queries=1)


def judge(name: str) -> float:
  classifier: jr.Classifier = jr.load_classifier(name)
  images, labels = jr.load_data("digits32").take(range(8))
  attack = jr.make_attack("pgd", norm="linf", num_steps=20)
  steps: int = attack.num_steps
  result: jr.AttackResult = jr.attack_images(attack, classifier, images, labels, eps="8/255", seed=steps)
  flags: np.ndarray = result.robust
  report = jr.evaluate(classifier, "digits32", suite="basic", eps="16/255", n=100)
  print(report.accuracies(), jr.__version__)
  for other in (RandomSearch(), jr.make_attack("cw"), jr.make_attack("autoattack"), jr.MinimumBudget(attack)):
    jr.attack_images(other, classifier, images, labels, eps=8 / 255)
  return float(flags.mean())


def mistakes(classifier: jr.Classifier, images: np.ndarray) -> None:
  print(jr.nonsense)  # error
  jr.attack_images(jr.make_attack("pgd"), classifier, images)  # error
  print(classifier.logits_of)  # error
  print(jr.make_attack("pgd", num_step=20).num_steps)  # error
  labels = np.zeros(len(images), int)
  jr.attack_images(jr.make_attack("cw", confidence="high"), classifier, images, labels, eps=0.5)  # error
