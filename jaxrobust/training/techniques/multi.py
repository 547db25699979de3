"""Training against several balls, or other threats, at once.

  average  the mean of the losses on all attacks' images   Tramèr and Boneh 2019 (arXiv:1904.13000)
  max      the loss on the worst of them, per example      the same
  random   one attack, drawn for each batch                as in Laidlaw et al. 2021 (arXiv:2006.12655)
  rex      the mean of all risks + weight · their variance over attacks, a risk being the mean loss on one attack's
           images: what is learned shall hold for each alike. Ibrahim et al. 2022 (arXiv:2210.03150)
  msd      one search: every step goes in each norm's steepest direction, and the worst of these points is kept
           Maini et al. 2020 (arXiv:1909.04068)

`budgets` take names of attacks too, which then craft by the margin as in `unforeseen`: linf 8/255, l2 1, `stadv` 0.05
and `recolor` 0.06, in the modes average, max and random, are the mixtures of Laidlaw et al. 2021.

Defaults: linf 8/255, l2 0.5, l1 12 (Maini et al.: 0.03, 0.5, 12), 10 steps of eps / 4 each; Maini et al. make 50 of
eps / 10 for msd and start at the image itself, which msd does here too. Known deviations: l1 steps are this package's
steepest ones and not the 5 to 20 largest coordinates. REx's weight, 10 from the first epoch on, is ours.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxrobust.attacks import norms
from jaxrobust.attacks.pgd import PGD
from jaxrobust.attacks.registry import make_attack
from jaxrobust.core.budget import NORMS, Budget
from jaxrobust.core.contract import bind_threat
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.types import Array
from jaxrobust.training.technique import TECHNIQUES, Batch, Context, Losses, Network
from jaxrobust.training.techniques.adversarial import InnerMaximization, craft, cross_entropy, problems_of, steered
from jaxrobust.training.techniques.objectives import soft_cross_entropy
from jaxrobust.training.techniques.unforeseen import target_margin

MODES = ("average", "max", "random", "rex", "msd")
# Modes whose steps are those of balls: no other threat has them.
_BALLS_ONLY = ("msd",)
BUDGETS = (("linf", "8/255"), ("l2", "0.5"), ("l1", "12"))


@TECHNIQUES.register("multi-at")
@dataclasses.dataclass(frozen=True)
class MultiTraining(InnerMaximization):
  """`budgets` name a norm or an attack and its eps each; the first, a norm, is what epochs are compared by."""

  mode: str = "average"
  budgets: tuple[tuple[str, str], ...] = BUDGETS
  weight: float = 10.0

  def __post_init__(self) -> None:
    if self.mode not in MODES:
      raise unknown_name("mode of multi-at", self.mode, list(MODES))
    pairs = self.budgets.items() if isinstance(self.budgets, Mapping) else self.budgets
    object.__setattr__(self, "budgets", tuple((str(norm), str(eps)) for norm, eps in pairs))
    if not self.budgets:
      raise InputError("multi-at needs at least one norm with its budget")
    object.__setattr__(self, "norm", self.budgets[0][0])
    object.__setattr__(self, "eps", self.budgets[0][1])
    super().__post_init__()
    others = [attack.name for attack, _ in self.attacks if not isinstance(attack, PGD)]
    if others and self.mode in _BALLS_ONLY:
      raise InputError(f"multi-at's mode {self.mode} is one of balls, which {', '.join(others)} has not: use average")

  @property
  def attacks(self) -> list[tuple[Any, float]]:
    """Returns an attack and its budget for each threat."""
    return [(self._attack(name), Budget.parse(eps, name).value) for name, eps in self.budgets]

  def _attack(self, name: str) -> Any:
    if name in NORMS:
      return PGD(name, self.num_steps, self.step_size, self.random_start)
    return steered(make_attack(name, num_steps=self.num_steps))

  def _craft(self, attack: Any, eps: float, batch: Batch, context: Context) -> Array:
    """Returns the images of one attack."""
    classifier, loss = self.attacked(context), cross_entropy if isinstance(attack, PGD) else target_margin
    bound = bind_threat(attack, classifier)
    return craft(bound, classifier, batch.images, batch.targets, eps * context.eps_scale, batch.keys, loss)

  def craft(self, batch: Batch, context: Context) -> tuple[Array, ...]:
    """Returns images to train on: one set, or one for each attack in the modes `average` and `rex`."""
    if self.mode == "msd":
      return (self._steepest_descent(batch, context),)
    if self.mode == "random":
      return (self._drawn(batch, context),)
    found = tuple(self._craft(attack, eps, batch, context) for attack, eps in self.attacks)
    if self.mode != "max":
      return found
    return (_worst(found, [self._loss(batch, context, images) for images in found])[0],)

  def _loss(self, batch: Batch, context: Context, images: Array) -> Array:
    return soft_cross_entropy(self.attacked(context)(images), batch.targets)

  def _gradient(self, batch: Batch, context: Context, images: Array) -> Array:
    return jax.grad(lambda images: jnp.sum(self._loss(batch, context, images)))(images)

  def _moves(self, batch: Batch, context: Context) -> list[Callable[[Array, Array], Array]]:
    """Returns, for each ball, the next images, from images and gradients."""

    def moved(norm: str, eps: Array, images: Array, grads: Array) -> Array:
      def move(image: Array, center: Array, grad: Array) -> Array:
        step = norms.steepest(norm, grad, self.step_size * eps, image)
        return norms.project(norm, image + step, center, eps)

      return jax.vmap(move)(images, batch.images, grads)

    return [functools.partial(moved, attack.norm, eps * context.eps_scale) for attack, eps in self.attacks]

  def _drawn(self, batch: Batch, context: Context) -> Array:
    """Crafts by PGD in a ball drawn for the batch; only the cheap moves are in a switch, the network is not.

    Threats that are no balls have no such moves: then whole attacks are.
    """
    if not all(isinstance(attack, PGD) for attack, _ in self.attacks):
      crafts = [functools.partial(self._craft, attack, eps, batch, context) for attack, eps in self.attacks]
      return jax.lax.switch(jax.random.randint(context.key, (), 0, len(crafts)), crafts)
    problems = [problems_of(batch.images, eps * context.eps_scale, batch.keys) for _, eps in self.attacks]
    pairs = zip(self.attacks, problems, strict=True)
    starts = [functools.partial(lambda attack, rows: jax.vmap(attack.init)(rows).image, a, p) for (a, _), p in pairs]
    moves, drawn = self._moves(batch, context), jax.random.randint(context.key, (), 0, len(starts))
    step = lambda _, images: jax.lax.switch(drawn, moves, images, self._gradient(batch, context, images))
    return jax.lax.fori_loop(0, self.num_steps, step, jax.lax.switch(drawn, starts))

  def _steepest_descent(self, batch: Batch, context: Context) -> Array:
    loss, moves = functools.partial(self._loss, batch, context), self._moves(batch, context)

    def step(_: int, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
      images, best, height = carry
      grads = self._gradient(batch, context, images)
      candidates = [move(images, grads) for move in moves]
      images, values = _worst(candidates, [loss(each) for each in candidates])
      higher = values > height
      return images, jnp.where(higher[:, None, None, None], images, best), jnp.maximum(values, height)

    begun = batch.images, batch.images, jnp.zeros(len(batch.images))
    return jax.lax.fori_loop(0, self.num_steps, step, begun)[1]

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    stats, values = context.batch_stats, []
    for images in context.crafted:
      logits, stats = network(images, stats)
      values.append(soft_cross_entropy(context.margin(logits, batch.targets), batch.targets))
    losses = jnp.stack(values)
    spread = jnp.var(jnp.mean(losses, axis=1)) if self.mode == "rex" else 0.0
    return Losses(jnp.mean(losses, axis=0) + self.weight * spread, logits, stats)


def _worst(candidates: Sequence[Array], values: Sequence[Array]) -> tuple[Array, Array]:
  """Returns, for each row, the candidate of largest value, and that value."""
  images, height = candidates[0], values[0]
  for other, value in zip(candidates[1:], values[1:], strict=True):
    images = jnp.where((value > height)[:, None, None, None], other, images)
    height = jnp.maximum(value, height)
  return images, height
