"""What is asked of the single steps of an attack: which points it evaluates, what it uses, whether it counts right."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.core.budget import inside
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.contract import bind_threat, contract_of
from jaxrobust.core.errors import first_line
from jaxrobust.core.types import Array, Attack, Problem
from jaxrobust.engine.access import model_for
from jaxrobust.engine.judge import RENDER_ATOL
from jaxrobust.testing.fixtures import CLASSES, Recorder, examples, fixture, starting_points

# Steps that are checked.
CHECKED_STEPS = 12


def claim(holds: Any, text: str) -> None:
  """Raises AssertionError with the claim that does not hold."""
  if not bool(holds):
    raise AssertionError(f"check_attack: {text}")


def check_steps(attack: Attack, eps: float, needs_target: bool) -> None:
  """Checks the access, the points and the counts of an attack."""
  problems = _problems(attack, eps, needs_target, 4)
  check_access(attack, problems)
  check_probes(attack, eps, problems)
  check_queries(attack, problems)


def _problems(attack: Attack, eps: float, needs_target: bool, count: int) -> Problem:
  """Returns some problems of the fixture; starts are of other classes."""
  images, labels = examples(fixture(), count)
  budget = jnp.full(count, np.inf if attack.minimal else eps, jnp.float32)
  target = (labels + 1) % CLASSES if needs_target else np.full(count, -1)
  pool, classes = starting_points()
  others, contract = [int(np.flatnonzero(classes != label)[0]) for label in labels], contract_of(attack)
  return Problem(
    jnp.asarray(images),
    jnp.asarray(labels, jnp.int32),
    jnp.asarray(target, jnp.int32),
    budget,
    jax.random.split(jax.random.key(1), count),
    jnp.asarray(pool[others]) if contract.needs_start else None,
    jnp.tile(jnp.asarray(pool[: contract.needs_others]), (count, 1, 1, 1, 1)) if contract.needs_others else None,
  )


def _one(problems: Problem) -> Problem:
  return jax.tree.map(lambda leaf: leaf[0], problems)


def _step(attack: Attack, classifier: Classifier, access: str) -> Any:
  """Returns (number, problem, state) -> (state, probe) as the engine makes a step of one image."""
  bound = bind_threat(attack, classifier)

  def step(number: Array | int, problem: Problem, state: Any) -> Any:
    return bound.step(model_for(attack, access, classifier, problem, False, number), problem, state)

  return step


def check_access(attack: Attack, problems: Problem) -> None:
  """Checks that a step does with what its access and cost declare; nothing is computed."""
  contract, problem = contract_of(attack), _one(problems)
  access = "score" if contract.cost.backward == 0 and contract.access == "gradient" else contract.access
  classifier = fixture()
  bound, step = bind_threat(attack, classifier), _step(attack, classifier, access)
  try:
    jax.eval_shape(lambda problem: step(0, problem, bound.init(problem)), problem)
  except Exception as error:
    declared = f"access {contract.access!r} and {contract.cost}"
    text = f"a step uses no more than it declares ({declared}): {first_line(error)}"
    raise AssertionError(f"check_attack: {text}") from error


def check_probes(attack: Attack, eps: float, problems: Problem) -> None:
  """Checks that every point evaluated is in the box, what its witness renders and, unless it may leave, in the ball."""
  classifier, contract = fixture(), contract_of(attack)
  threat = bind_threat(attack, classifier).threat
  bound = np.inf if contract.minimal or contract.may_leave_ball else eps

  def one(number: Array | int, problem: Problem, state: Any) -> tuple[Any, Array, Array, Array, Array]:
    state, probe = step_of(number, problem, state)
    in_box = jnp.all((probe.image >= 0) & (probe.image <= 1))
    rendered = jnp.ones((), bool)
    if threat.witnessed:
      drawn = threat.render(problem.image, probe.witness)
      rendered = jnp.all(jnp.abs(drawn - probe.image) <= RENDER_ATOL)
    distance = threat.distance(problem.image, probe.image, probe.witness)
    said = distance if probe.distance is None else probe.distance
    honest = jnp.abs(said - distance) <= 1e-3 * distance + threat.tolerance(problem.image.shape)
    return state, in_box, rendered, honest | ~jnp.isfinite(distance), distance

  step_of = _step(attack, classifier, contract.access)
  step = jax.jit(jax.vmap(one, in_axes=(None, 0, 0)))
  states = jax.jit(jax.vmap(bind_threat(attack, classifier).init))(problems)
  tolerance = threat.tolerance(problems.image.shape[1:])
  for number in range(min(contract.num_steps, CHECKED_STEPS)):
    states, in_box, rendered, honest, distance = step(number, problems, states)
    claim(in_box.all(), "every point evaluated is finite and in [0, 1]")
    claim(rendered.all(), "every point evaluated is what its witness renders")
    claim(honest.all(), "the distance that a step reports is that of its threat")
    claim(inside(np.asarray(distance), bound, tolerance).all(), "every point evaluated is in the ball")


def check_queries(attack: Attack, problems: Problem) -> None:
  """Checks the reported queries against the evaluations that one image really takes, and that each draws anew."""
  recorder, contract, problem = Recorder(), contract_of(attack), _one(problems)
  step_of = _step(attack, recorder.classifier, contract.access)

  def counted(number: Array | int, problem: Problem, state: Any) -> tuple[Any, Array, Array, Array]:
    state, probe = step_of(number, problem, state)
    own = probe.queries if probe.point_query is None else probe.point_query
    return state, jnp.asarray(probe.queries), jnp.asarray(own), jnp.asarray(probe.done)

  step = jax.jit(counted)
  state = jax.jit(bind_threat(attack, recorder.classifier).init)(problem)
  for number in range(min(contract.num_steps, CHECKED_STEPS)):
    recorder.keys.clear()
    recorder.backward = 0
    state, *counts = step(number, problem, state)
    reported, own, done = (int(part) for part in counts)
    jax.effects_barrier()
    made, most = len(recorder.keys), contract.cost.forward
    claim(reported == made, f"a step reports the queries it makes: {reported} reported, {made} made")
    claim(made <= most, f"a step makes no more queries than its cost: {made} made, Cost(forward={most})")
    gradients, most = recorder.backward, contract.cost.backward
    claim(gradients <= most, f"a step takes no more gradients than its cost: {gradients} taken, Cost(backward={most})")
    claim(min(made, 1) <= own <= made, f"a step evaluates its point within its queries: point_query={own} of {made}")
    first = not contract.candidate or contract.minimal or own <= 1
    claim(first, f"a step evaluates its candidate before it asks anything else: point_query={own}")
    anew = "every query of a randomized classifier draws anew; inside vmap or a loop call model(image, draw=i)"
    claim(len(set(recorder.keys)) == made, anew)
    if done:
      break
