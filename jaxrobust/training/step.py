"""One jitted training step, plain or adversarial.

Adversarial images are crafted inside the step by the same attack values that evaluate models: the batch is
`vmap(init)`-ed and stepped a fixed number of times with evaluation-mode batch norm (Madry et al. 2018,
arXiv:1706.06083), then the loss is taken in training mode.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.gradients import ImageLogits
from jaxrobust.core.types import Array, Attack, Problem


class TrainState(NamedTuple):
  """All that changes during training."""

  params: Any
  batch_stats: Any
  opt_state: Any
  step: Array


class Recipe(NamedTuple):
  """What decides the compiled step; hashable.

  Attributes:
    module: the network.
    mean, std: its normalisation.
    optimiser: an optax transformation (kept as a value: compare by identity).
    attack: crafts the training images; None for standard training.
    eps: the budget of that attack.
    warmup: steps over which the budget grows from zero; adversarial training from scratch can otherwise
      settle on the constant classifier.
  """

  module: nn.Module
  mean: tuple[float, ...]
  std: tuple[float, ...]
  optimiser: optax.GradientTransformation
  attack: Attack | None = None
  eps: float = 0.0
  warmup: int = 0


def init_state(recipe: Recipe, key: Array, image_shape: tuple[int, ...]) -> TrainState:
  """Fresh parameters and optimiser state."""
  variables = recipe.module.init(key, jnp.zeros((1, *image_shape)))
  params = variables["params"]
  return TrainState(params, variables.get("batch_stats", {}), recipe.optimiser.init(params), jnp.zeros((), jnp.int32))


def variables_of(state: TrainState) -> dict[str, Any]:
  """The flax variables of a state, as the module takes them."""
  return {"params": state.params} | ({"batch_stats": state.batch_stats} if state.batch_stats else {})


def craft(attack: Attack, classifier: Classifier, images: Array, labels: Array, eps: Array, key: Array) -> Array:
  """Adversarial images after all steps of the attack, for a whole batch; gradients do not flow through."""
  count = images.shape[0]
  problems = Problem(
    images, labels, jnp.full((count,), -1), jnp.broadcast_to(eps, (count,)), jax.random.split(key, count)
  )

  def step(problem: Problem, state: Any) -> Any:
    return attack.step(ImageLogits(classifier, problem.key), problem, state)[0]

  states = jax.vmap(attack.init)(problems)
  states = jax.lax.fori_loop(0, attack.num_steps, lambda _, states: jax.vmap(step)(problems, states), states)
  return jax.lax.stop_gradient(jax.vmap(attack.last)(problems, states))  # type: ignore[attr-defined]


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def train_step(
  recipe: Recipe, state: TrainState, images: Array, labels: Array, key: Array
) -> tuple[TrainState, dict[str, Array]]:
  """One update; metrics as (sum, count) pairs' sums over the batch."""
  if recipe.attack is not None:
    classifier = Classifier.from_module(recipe.module, variables_of(state), mean=recipe.mean, std=recipe.std)
    grown = jnp.minimum((state.step + 1) / (recipe.warmup + 1), 1.0).astype(jnp.float32)
    images = craft(recipe.attack, classifier, images, labels, recipe.eps * grown, key)
  normalised = (images - jnp.asarray(recipe.mean)) / jnp.asarray(recipe.std)

  def loss_fn(params: Any) -> tuple[Array, tuple[Array, Any]]:
    variables = variables_of(state._replace(params=params))
    logits, updates = recipe.module.apply(variables, normalised, train=True, mutable=["batch_stats"])
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    return jnp.mean(losses), (logits, updates.get("batch_stats", {}))

  (loss, (logits, batch_stats)), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
  updates, opt_state = recipe.optimiser.update(grads, state.opt_state, state.params)
  params = optax.apply_updates(state.params, updates)
  metrics = {
    "loss": loss * labels.shape[0],
    "correct": jnp.sum(jnp.argmax(logits, -1) == labels),
    "count": jnp.asarray(labels.shape[0]),
  }
  return TrainState(params, batch_stats, opt_state, state.step + 1), metrics
