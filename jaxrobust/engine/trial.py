"""A trial of an attack before anything compiles: one step on shapes alone, of a classifier that is none."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.contract import contract_of, split_arrays
from jaxrobust.core.errors import InputError, JaxrobustError, first_line
from jaxrobust.core.types import Array, Attack, Probe, Problem
from jaxrobust.engine.access import model_for
from jaxrobust.engine.status import MOST_QUERIES

_FORM = "step(model, problem, state) returns (state, Probe(image, logits, queries))"
_TRIED: set = set()


@functools.cache
def _stand_in(classes: int) -> Classifier:
  def logits(images: Array) -> Array:
    return jnp.broadcast_to(jnp.sum(images, (1, 2, 3))[:, None], (len(images), classes))

  return Classifier.from_function(logits, classes)


def try_step(attack: Attack, problem: Problem, classes: int) -> tuple[Any, Any, Any]:
  """Returns the shapes of a state, and of the state and the probe after a step."""

  def once(problem: Problem) -> tuple[Any, Any, Any]:
    state = attack.init(problem)
    model = model_for(attack, attack.access, _stand_in(classes), problem, False, 0)
    after, probe = attack.step(model, problem, state)
    if not isinstance(probe, Probe):
      raise TypeError(f"it reports a {type(probe).__name__}")
    return state, after, probe

  return jax.eval_shape(once, problem)


def check_step(attack: Attack, image_shape: tuple[int, ...], classes: int) -> None:
  """Raises InputError, in one line, for an attack whose step does not do what its contract says."""
  static, arrays = split_arrays(attack)
  shapes = tuple((np.shape(leaf), str(jnp.result_type(leaf))) for leaf in arrays)
  signature = static, contract_of(attack).access, shapes, tuple(image_shape), classes
  if signature in _TRIED:
    return
  image = jax.ShapeDtypeStruct(tuple(image_shape), np.float32)
  number, eps = (jax.ShapeDtypeStruct((), kind) for kind in (np.int32, np.float32))
  key = jax.eval_shape(lambda: jax.random.key(0))
  contract = contract_of(attack)
  others = jax.ShapeDtypeStruct((contract.needs_others, *image_shape), np.float32) if contract.needs_others else None
  parts: Any = (image, number, number, eps, key, image if contract.needs_start else None, others)
  name = type(attack).__name__
  try:
    state, after, probe = try_step(attack, Problem._make(parts), classes)
  except JaxrobustError:
    raise
  except Exception as error:
    raise InputError(f"attack {name} fails in its first step, {first_line(error)}: {_FORM}") from error
  problem = next((text for bad, text in _rules(attack, image, state, after, probe) if bad), None)
  if problem is not None:
    raise InputError(f"attack {name}: {problem}")
  _TRIED.add(signature)


def _rules(attack: Attack, image: Any, state: Any, after: Any, probe: Any) -> list[tuple[bool, str]]:
  """Returns what must hold of a step's shapes, as (whether it is broken, text)."""
  counted = probe.queries is not None and probe.queries.shape == () and np.issubdtype(probe.queries.dtype, np.integer)
  answer = "whether the goal is met" if attack.access == "decision" else "logits"
  dimensions = 0 if attack.access == "decision" else 1
  answered = isinstance(probe.logits, jax.ShapeDtypeStruct) and probe.logits.ndim == dimensions
  before, now = ([(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)] for tree in (state, after))
  same = before == now and bool(jax.tree.structure(state) == jax.tree.structure(after))  # type: ignore[operator]
  return [
    (not counted, "Probe.queries is one integer, the evaluations that the step made"),
    (not answered, f"Probe.logits is what model(image) said: {answer}"),
    (probe.image.shape != image.shape, f"Probe.image has the shape {probe.image.shape}, images have {image.shape}"),
    (
      contract_of(attack).candidate and not attack.minimal and attack.cost.forward > 1 and probe.point_query is None,
      "a step of several queries evaluates its candidate first: report Probe(..., point_query=1)",
    ),
    (not same, "a step changes the structure, shapes or types of the state that init made"),
    (
      attack.threat.witnessed and probe.witness is None,
      f"the threat {attack.threat.name} measures a witness: report Probe(..., witness=...)",
    ),
  ]


def check_query_budget(attack: Attack, samples: int) -> None:
  """Raises InputError where the first step of an attack would go beyond its budget of queries, or all of them beyond
  what can be counted."""
  budget, most = contract_of(attack).max_queries, samples * attack.cost.forward * attack.num_steps
  if min(most, most if budget is None else budget) > MOST_QUERIES:
    raise InputError(f"attack {type(attack).__name__}: up to {most} queries of one image are more than {MOST_QUERIES}")
  if budget is not None and samples * contract_of(attack).largest_need > budget:
    name, step = type(attack).__name__, contract_of(attack).largest_need
    raise InputError(f"attack {name}: {samples} samples of {step} queries a step are more than max_queries, {budget}")
