"""What is compiled for a slice: a program, the bare evaluations of the network that it needs, and what must not happen.

One program of the engine is one dispatch of an attack with K = 1: a loop of K steps moves and computes K times that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxrobust.attacks.registry import attack_id
from jaxrobust.attacks.schedule import as_schedule
from jaxrobust.bench.bare import bare_gradient, bare_logits
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.classifier_forms import in_dtype
from jaxrobust.core.contract import bind_threat, split_threat
from jaxrobust.core.mesh import replicated, row_sharding
from jaxrobust.core.types import Attack
from jaxrobust.engine.judge import Candidates, judge
from jaxrobust.engine.memory import abstract, group_size, lower_advance, lowering_platform
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.program import Program, more_shape, plain_shapes, witness_shape
from jaxrobust.engine.slots import exchange
from jaxrobust.engine.status import ENTRY
from jaxrobust.models.registry import MODELS, abstract_variables, make_model

Lower = Callable[[int], jax.stages.Lowered]
"""Rows per chip -> a program, lowered."""
# More than a run has, so that slots follow from the images and the chips alone.
MANY = 1 << 20


@dataclass(frozen=True)
class PodNetwork:
  """An architecture and its arithmetic.

  Attributes:
    dtype: "float32" or "bfloat16"; precision: of products of float32.
  """

  arch: str
  dtype: str = "float32"
  precision: str = "highest"

  @property
  def image_shape(self) -> tuple[int, int, int]:
    return MODELS[self.arch].input_size

  @property
  def arithmetic(self) -> str:
    """Returns the precision whose passes a chip makes."""
    return "bfloat16" if self.dtype == "bfloat16" else self.precision

  def classifier(self) -> Classifier:
    """Returns the classifier with shapes in place of weights."""
    return _abstract_classifier(self.arch, self.dtype)


@functools.cache
def _abstract_classifier(arch: str, dtype: str) -> Classifier:
  spec, module = MODELS[arch], make_model(arch)
  weights = abstract_variables(module, spec.input_size)
  make = lambda weights: Classifier.from_module(
    module, weights, mean=spec.mean, std=spec.std, num_classes=spec.num_classes, input_shape=spec.input_size
  )
  return jax.eval_shape(lambda weights: in_dtype(make(weights), dtype), weights)


@dataclass(frozen=True)
class Work:
  """A program to compile.

  Attributes:
    name: of the program; network: what it evaluates.
    lower: for some rows per chip.
    rows: per chip, unless told otherwise.
    needs: bare evaluations of its rows, by name, and how many of them one run needs.
    bare: how those are lowered.
    runs: how many runs finish the images in its rows, if all of them stand to the end.
    silent: whether it must not communicate.
  """

  name: str
  network: PodNetwork
  lower: Lower
  rows: int
  needs: Mapping[str, float]
  bare: Mapping[str, Lower]
  runs: float = 1.0
  silent: bool = True


def evaluation_works(network: PodNetwork, attacks: Iterable[Any], mesh: Mesh) -> Iterator[Work]:
  """Yields the programs of attacks and cascades on a network, none twice: steps and exchanges, then verifications."""
  stages = [stage.attack for attack in attacks for stage in as_schedule(attack).stages]
  for attack in {attack_id(attack): attack for attack in stages}.values():
    yield attack_work(network, attack, mesh)
    yield exchange_work(network, attack, mesh)
  for attack in {attack.threat.name: attack for attack in stages}.values():
    yield judge_work(network, attack, mesh)


def attack_work(network: PodNetwork, attack: Attack, mesh: Mesh) -> Work:
  """Returns one step of an attack for every slot."""
  classifier = network.classifier()
  program, arrays = _program(network, attack, mesh)
  cost, options = attack.cost, EngineOptions.for_platform(mesh=mesh)
  size, _ = group_size(options, network.image_shape, MANY, cost.parallel)
  plain = max(cost.forward - cost.backward, 0)
  return Work(
    attack_id(attack),
    network,
    lambda rows: lower_advance(program, classifier, arrays, rows * mesh.size, network.image_shape),
    size // mesh.size,
    {name: times for name, times in (("gradient", cost.backward), ("forward", plain)) if times},
    bare_programs(network, mesh),
    attack.num_steps,
  )


def exchange_work(network: PodNetwork, attack: Attack, mesh: Mesh) -> Work:
  """Returns the exchange of all slots of an attack: no network is evaluated."""
  work = attack_work(network, attack, mesh)
  program, arrays = _program(network, attack, mesh)

  def lower(rows: int) -> jax.stages.Lowered:
    size, wanted = rows * mesh.size, more_shape(program.rule, network.image_shape)
    slots = plain_shapes(program, arrays, size, network.image_shape)
    words = np.broadcast_to(np.int32(0), (size, ENTRY.itemsize // 4))
    images = np.broadcast_to(np.uint8(0), (size, *network.image_shape))
    more = None if wanted is None else np.broadcast_to(np.uint8(0), (size, *wanted))
    outbox = _candidates(network, size, witness_shape(program, arrays, network.image_shape))
    rows_of = abstract((slots, outbox, words, images, more), row_sharding(mesh))
    return _lowered(mesh, exchange, program, abstract(arrays, replicated(mesh)), *rows_of)

  return Work(f"exchange of {work.name}", network, lower, work.rows, {}, {})


def judge_work(network: PodNetwork, attack: Attack, mesh: Mesh) -> Work:
  """Returns the verification of candidates, which is the clean pass as well."""
  classifier = network.classifier()
  program, arrays = _program(network, attack, mesh)
  threat, measured = split_threat(bind_threat(attack, classifier).threat)

  def lower(rows: int) -> jax.stages.Lowered:
    outbox = _candidates(network, rows * mesh.size, witness_shape(program, arrays, network.image_shape))
    fixed = abstract((classifier, measured), replicated(mesh))
    options = {"threat": threat, "rows": rows, "samples": 1, "mesh": mesh, "with_images": False, "own": True}
    return _lowered(mesh, judge, *fixed, abstract(outbox, row_sharding(mesh)), False, **options)

  work = attack_work(network, attack, mesh)
  return Work(f"verification, {attack.threat.name}", network, lower, work.rows, {"forward": 1}, work.bare)


def _program(network: PodNetwork, attack: Attack, mesh: Mesh) -> tuple[Program, tuple[Any, ...]]:
  return Program.of(bind_threat(attack, network.classifier()), samples=1, verdict_samples=1, steps=1, mesh=mesh)


def bare_programs(network: PodNetwork, mesh: Mesh) -> dict[str, Lower]:
  """Returns how bare evaluations of the network are lowered."""
  classifier = abstract(network.classifier(), replicated(mesh))

  def images(rows: int) -> Any:
    return jax.ShapeDtypeStruct((rows * mesh.size, *network.image_shape), jnp.float32, sharding=row_sharding(mesh))

  def labels(rows: int) -> Any:
    return jax.ShapeDtypeStruct((rows * mesh.size,), jnp.int32, sharding=row_sharding(mesh))

  return {
    "forward": lambda rows: _lowered(mesh, bare_logits, classifier, images(rows)),
    "gradient": lambda rows: _lowered(mesh, bare_gradient, classifier, images(rows), labels(rows)),
  }


def _candidates(network: PodNetwork, size: int, witness: Any) -> Candidates:
  image = np.broadcast_to(np.float32(0), (size, *network.image_shape))
  number, key = np.zeros(size, np.int32), np.zeros((size, 2), np.uint32)
  shapes = jax.tree.map(lambda leaf: np.broadcast_to(np.zeros((), leaf.dtype), (size, *leaf.shape)), witness)
  return Candidates(image, image, number, number, key, shapes)  # type: ignore[arg-type]


def _lowered(mesh: Mesh, program: Any, /, *arguments: Any, **options: Any) -> jax.stages.Lowered:
  return program.trace(*arguments, **options).lower(lowering_platforms=(lowering_platform(mesh),))
