"""Compiles one program of each kind for a small slice and prints a row of JSON for each.

  python -m tests.pods.compile_programs v5e:2x2

A process of its own: JAX must know that there are no chips before it looks for them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import jax
from jax.sharding import Mesh

from jaxrobust.attacks.registry import make_attack
from jaxrobust.models.registry import MODELS, abstract_variables, make_model
from jaxrobust.pods.chips import Slice
from jaxrobust.pods.measure import SliceCompiler
from jaxrobust.pods.topology import set_environment, slice_mesh
from jaxrobust.pods.training_work import training_work
from jaxrobust.pods.work import PodNetwork, Work, attack_work, evaluation_works
from jaxrobust.training import state
from jaxrobust.training.config import TrainConfig

ARCH, ROWS = "repvgg_tiny", 8
ATTACK = {"pgd-at": {"num_steps": 3, "step_size": 0.5}}


def train_config(chips: int, **more: object) -> TrainConfig:
  """Returns a training with PGD-3 of a small network with batch norm, in bfloat16."""
  return TrainConfig(
    arch=ARCH,
    batch_size=ROWS * chips,
    optimizer="momentum",
    techniques=("pgd-at",),
    options=ATTACK,
    precision="bfloat16",
    **more,  # type: ignore[arg-type]
  )


def works(mesh: Mesh, trains: bool) -> Iterator[tuple[Work, dict[str, float]]]:
  """Yields one program of each kind, and what a test must know of it."""
  network, pgd = PodNetwork(ARCH, "bfloat16"), make_attack("pgd")
  if not trains:
    yield attack_work(network, pgd, mesh), {}
    return
  for work in evaluation_works(network, [pgd], mesh):
    yield work, {}
  spec = MODELS[ARCH]
  weights = jax.tree.leaves(abstract_variables(make_model(ARCH), spec.input_size)["params"])
  for more in ({}, {"batch_norm_groups": mesh.size}, {"sharding": "fsdp", "batch_norm_groups": mesh.size}):
    config = train_config(mesh.size, **more)
    yield training_work(config, mesh), {"weight_bytes": 4.0 * sum(leaf.size for leaf in weights)}


def main(text: str) -> None:
  set_environment()
  where = Slice.parse(text)
  mesh, compiler = slice_mesh(where), SliceCompiler(where)
  for work, known in works(mesh, where.chip.platform == "tpu"):
    row = compiler.row(work, ROWS)
    shared = compiler.with_shares(work, row) if "pgd" in work.name else row
    print(json.dumps(shared.as_dict() | known), flush=True)


if __name__ == "__main__":
  state.SMALLEST_SPLIT = 64  # The weights of a network that compiles in seconds are small.
  jax.config.update("jax_enable_compilation_cache", False)
  main(sys.argv[1])
