"""Cells of NAS-Bench-201 by one program against a program for each cell, in one run.

  jaxrobust bench nas [--cells=10] [--width=8] [--depth=1] [--only=gradient]

Three questions. What does a switch on each edge cost, beside a network that has the cell's operations built in? How
many programs does an attack compile for many cells? How many more cells a second are attacked if none but the first
compiles? Programs are kept nowhere, so that each cell's own is compiled as it would be the first time. Weights are
random, images noise, budgets small: most images stand, as those of a trained network do.
"""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks.registry import make_attack
from jaxrobust.bench.bare import bare_gradient
from jaxrobust.bench.rows import Row, alternate, chosen
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.compilation import count_compilations, kept_programs
from jaxrobust.core.nas_cells import operations_of
from jaxrobust.core.types import Array
from jaxrobust.engine.api import attack_images
from jaxrobust.engine.options import EngineOptions
from jaxrobust.models.families.nas_bench_201 import MEAN, STD
from jaxrobust.nas.one_program import OneProgram
from jaxrobust.nas.space import choose_cells

EPS = "0.25/255"
SIDE, SLOTS = 32, 64
# Attacks of `nas-cell` in their small form.
ATTACKS: dict[str, dict[str, Any]] = {
  "fgsm": {},
  "pgd": {"num_steps": 4, "step_size": 0.3},
  "apgd-ce": {"num_steps": 5},
  "square": {"num_steps": 20},
}
COSTS = ("input gradient", "training gradient")
FORMS = ("switch", "native")
Trained = Callable[[Array, Any, Array], tuple[Array, Any]]
Forms = dict[str, Callable[[], Any]]


def run(
  cells: int = 10,
  width: int = 8,
  depth: int = 1,
  n: int = 256,
  batch_size: int = 32,
  natives: int = 3,
  repeats: int = 5,
  only: str = "",
  seed: int = 0,
) -> Iterator[Row]:
  """Measures the switch over `cells` random cells, then each attack on them and on `natives` programs of their own."""
  titles = chosen((*COSTS, *ATTACKS), only)
  program, uids = OneProgram(width, depth), choose_cells(f"random-{cells}", seed)
  rng = np.random.default_rng(seed)
  images = rng.uniform(size=(max(n, batch_size), SIDE, SIDE, 3)).astype(np.float32)
  pairs = [_pair(program, uid) for uid in uids]
  with tempfile.TemporaryDirectory() as folder, kept_programs(folder):  # All is compiled anew.
    yield from _costs(program, pairs, images[:batch_size], titles, repeats)
    for name in titles:
      if name in ATTACKS:
        yield from _attack(name, pairs, natives, images[:n])


class Pair(NamedTuple):
  """A cell with random weights in both forms.

  Attributes:
    uid: the cell.
    classifiers: by the one program, and as a network of its own.
    trained: for both, logits in training mode with new statistics, as a function of operations, variables and images.
  """

  uid: int
  classifiers: tuple[Classifier, Classifier]
  trained: tuple[Trained, Trained]


def _pair(program: OneProgram, uid: int) -> Pair:
  operations = operations_of(uid)
  wide, module = program.init(jax.random.key(0), operations), program.native(operations)

  def native(_: Array, variables: Any, images: Array) -> tuple[Array, Any]:
    logits, updates = module.apply(variables, images, train=True, mutable=["batch_stats"])
    return logits, updates["batch_stats"]

  own = Classifier.from_module(module, program.narrow(operations, wide), mean=MEAN, std=STD)
  return Pair(uid, (program.classifier(operations, wide), own), (program.train_logits, native))


def _costs(
  program: OneProgram, pairs: Sequence[Pair], images: np.ndarray, titles: Sequence[str], repeats: int
) -> Iterator[Row]:
  """Measures both gradients of every cell in both forms, in turns."""
  labels = jnp.arange(len(images)) % program.num_classes
  for name, gradients in zip(COSTS, (_input_gradients, _weight_gradients), strict=True):
    if name not in titles:
      continue
    ratios = []
    for pair in pairs:
      both = gradients(pair, images, labels)
      alternate(both, 1)  # Compiles.
      best = alternate(both, repeats)[0]
      ratios.append(best["switch"] / best["native"])
    title = f"C {program.width} N {program.depth}, {name} of {len(pairs)} cells"
    for what, value in (("mean", np.exp(np.mean(np.log(ratios)))), ("least", min(ratios)), ("most", max(ratios))):
      yield Row(f"{title}, {what}", float(value), "times native")


def _input_gradients(pair: Pair, images: np.ndarray, labels: Array) -> Forms:
  calls = (functools.partial(bare_gradient, classifier, images, labels) for classifier in pair.classifiers)
  return dict(zip(FORMS, calls, strict=True))


def _weight_gradients(pair: Pair, images: np.ndarray, labels: Array) -> Forms:
  operations = jnp.array(operations_of(pair.uid))
  weights = [classifier.variables["module"] for classifier in pair.classifiers]
  calls = (
    functools.partial(_weight_gradient, trained, operations, variables, images, labels)
    for trained, variables in zip(pair.trained, weights, strict=True)
  )
  return dict(zip(FORMS, calls, strict=True))


@functools.partial(jax.jit, static_argnums=0)
def _weight_gradient(trained: Trained, operations: Array, weights: Any, images: Array, labels: Array) -> Any:
  """Takes the gradient of a batch's cross-entropy by the weights, normalized by the batch, and the new statistics."""

  def loss(params: Any) -> tuple[Array, Any]:
    logits, stats = trained(operations, {**weights, "params": params}, images)
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1).mean(), stats

  return jax.grad(loss, has_aux=True)(weights["params"])


def _attack(name: str, pairs: Sequence[Pair], natives: int, images: np.ndarray) -> Iterator[Row]:
  """Attacks all cells by one program, and some by their own."""
  attack = make_attack(name, **ATTACKS[name])
  # As in `nas run`: fewer slots for the tail would be another program.
  options = EngineOptions.for_platform(SLOTS, shrink=False)

  def attacked(classifier: Classifier) -> float:
    labels = np.concatenate([np.asarray(_predict(classifier, images[at : at + SLOTS])) for at in starts])
    begun = time.perf_counter()
    attack_images(attack, classifier, images, labels, eps=EPS, options=options)
    return time.perf_counter() - begun

  starts = range(0, len(images), SLOTS)
  with count_compilations() as first:
    opening = attacked(pairs[0].classifiers[0])
  with count_compilations() as others:
    times = [attacked(pair.classifiers[0]) for pair in pairs[1:]]
  alone = [attacked(pair.classifiers[1]) for pair in pairs[:natives]]
  title = f"{name}, {len(images)} images"
  yield Row(f"{title}: programs made for the first cell", first.programs, "programs")
  yield Row(f"{title}: programs made for {len(times)} more", others.programs, "programs")
  rate, own = 1 / float(np.mean(times)), 1 / float(np.mean(alone))
  yield Row(f"{title}: cells once compiled", rate, "cells/s", "native programs, compiled each", ratio=rate / own)
  whole = (len(times) + 1) / (opening + sum(times))
  yield Row(f"{title}: {len(pairs)} cells, compilation and all", whole, "cells/s", "the same", ratio=whole / own)


@jax.jit
def _predict(classifier: Classifier, images: Array) -> Array:
  return classifier(images).argmax(-1)
