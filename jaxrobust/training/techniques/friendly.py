"""FAT: friendly adversarial training; Zhang et al. 2020 (arXiv:2002.11242).

PGD stops for an image `tau` steps after the network first gets it wrong: what is trained on is adversarial, but no
more so than needed. Defaults: 10 steps of eps / 4, tau 0 in the first 50/120 of the run, 1 up to 90/120, then 2 (the
authors' schedule). Known deviations: no Gaussian noise of 0.001 between steps; the steps of images that have stopped
are computed with the others and not taken, so that shapes are fixed.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.training.technique import TECHNIQUES, Batch, Context
from jaxrobust.training.techniques.adversarial import AdversarialTraining, advance, cross_entropy, problems_of

# Shares of the run after which tau grows.
_LATER = (50 / 120, 90 / 120)


@TECHNIQUES.register("fat")
@dataclasses.dataclass(frozen=True)
class FriendlyTraining(AdversarialTraining):
  """`pgd-at` with early stops; a `tau` of its own replaces the schedule."""

  tau: int | None = None

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.tau is not None and self.tau < 0:
      raise InputError(f"tau must not be negative, got {self.tau}")

  def craft(self, batch: Batch, context: Context) -> Array:
    attack, classifier = self.attack, self.attacked(context)
    problems = problems_of(batch.images, self.budget * context.eps_scale, batch.keys)
    true = jnp.argmax(batch.targets, axis=-1)
    patience = jnp.sum(context.train_fraction >= jnp.asarray(_LATER)) if self.tau is None else self.tau

    def step(_: int, carry: tuple[Any, Array]) -> tuple[Any, Array]:
      states, left = carry
      moved, probes = advance(attack, classifier, cross_entropy, problems, batch.targets, states)
      wrong = jnp.argmax(probes.logits, axis=-1) != true
      going = ~wrong | (left > 0)
      states = jax.tree.map(lambda new, old: jnp.where(_like(going, new), new, old), moved, states)
      # A stopped image stays wrong, with nothing left: it never goes on.
      return states, left - (wrong & going)

    begun = jax.vmap(attack.init)(problems), jnp.broadcast_to(patience, true.shape).astype(jnp.int32)
    return jax.lax.fori_loop(0, attack.num_steps, step, begun)[0].image


def _like(flags: Array, rows: Array) -> Array:
  return flags.reshape(-1, *[1] * (rows.ndim - 1))
