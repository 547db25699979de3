"""The training step against the sum of its bare evaluations, and against the same step in plain PyTorch.

  jaxrobust bench train [--peer_python=PYTHON]

PGD-3 adversarial training of the CIFAR ResNet-20 on random images. Efficiency is (3 bare input gradients + 1 bare
parameter step) over the step. Beside it, how many pictures of ImageNet's usual size the input reads from files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax
from PIL import Image

from jaxrobust.bench.bare import bare_parts
from jaxrobust.bench.peers import Peers
from jaxrobust.bench.rows import Row, seconds, typical
from jaxrobust.core.mesh import fitting_mesh
from jaxrobust.core.threads import cores
from jaxrobust.data.encoded import EncodedSource
from jaxrobust.data.source import ArraySource
from jaxrobust.data.stores import FolderStore
from jaxrobust.models.registry import make_model
from jaxrobust.training.composition import make_plan
from jaxrobust.training.state import init_state, state_shardings
from jaxrobust.training.step import Recipe, make_step
from jaxrobust.training.stream import Stream

STEPS = 3


def run(arch: str = "resnet20", batch_size: int = 128, repeats: int = 7, peer_python: str = "") -> list[Row]:
  """Measures step time against bare parts and against PyTorch; the share of time spent waiting for data."""
  rng = np.random.default_rng(0)
  images = rng.integers(0, 256, (4 * batch_size, 32, 32, 3)).astype(np.uint8)
  data = ArraySource("random", images, rng.integers(0, 10, len(images)), 10)
  techniques = ("pad-crop-flip", "pgd-at")
  plan = make_plan(techniques, {"pgd-at": {"num_steps": STEPS, "step_size": 0.5}})
  recipe = Recipe(make_model(arch), 10, (0.5,) * 3, (0.25,) * 3, plan, optax.sgd(0.01, 0.9, nesterov=True))
  mesh = fitting_mesh(batch_size)
  state = init_state(recipe.module, recipe.optimizer, jax.random.key(0), (32, 32, 3), averaged=False)
  shardings = state_shardings(state, mesh, "data")
  parts = bare_parts(recipe.module, recipe.optimizer, (images[:batch_size], data.labels[:batch_size]))
  seconds(lambda: (parts["inputs"](), parts["params"](), parts["updates"]()), 1)  # Compiles.
  bare = _bare_seconds(parts, repeats)
  step, state = make_step(recipe, mesh, shardings), jax.device_put(state, shardings)
  stream = Stream(data, len(data), batch_size, 0, mesh)
  batches, holder = iter(stream), [state]

  def advance() -> Any:
    holder[0], report = step(holder[0], *next(batches))
    return report["loss"]

  jax.block_until_ready(advance())
  taken = typical(advance, repeats)
  waiting = typical(lambda: next(batches), repeats)
  stream.close()
  bare = (bare + _bare_seconds(parts, repeats)) / 2
  name = f"{arch} pgd-{STEPS} training step"
  with Peers(peer_python, None) as peers:
    reply = peers.ask(attack="train-pgd", network=arch, n=batch_size, steps=STEPS, rounds=repeats)
  known = "missing" not in reply
  return [
    Row(
      name,
      batch_size / taken,
      "images/s",
      reply.get("peer", f"PyTorch: {reply.get('missing')}"),
      reply.get("version"),
      reply["seconds"] / taken if known else None,
      bare / taken,
    ),
    Row(f"{name}, waiting for data", waiting / taken, "fraction"),
    *input_rows(batch_size, repeats),
  ]


def input_rows(count: int, repeats: int) -> list[Row]:
  """Times reading files of 500x375 pixels to batches of 224x224, by all cores and by one."""
  rng = np.random.default_rng(0)
  with tempfile.TemporaryDirectory() as folder:
    for number in range(count):
      # Large patches with a little noise: about as many bytes as a photograph.
      patches = Image.fromarray(rng.integers(0, 256, (24, 32, 3), np.uint8)).resize((500, 375))
      levels = np.asarray(patches) + rng.integers(-12, 13, (375, 500, 3))
      Image.fromarray(levels.clip(0, 255).astype(np.uint8)).save(f"{folder}/{number:05}.jpg", quality=90)
    store = FolderStore(folder)
    data = EncodedSource("made", store, store.names, np.zeros(count, int), 1)
    everyone = typical(lambda: data.raw(np.arange(count)), repeats)
    alone = typical(lambda: [data.decode(i) for i in range(count)], repeats)
  name = "input from JPEG files of 500x375"
  return [
    Row(f"{name}, {cores()} cores", count / everyone, "images/s"),
    Row(f"{name}, one core", count / alone, "images/s"),
  ]


def _bare_seconds(parts: dict[str, Callable[[], Any]], repeats: int) -> float:
  """Times STEPS input gradients in evaluation mode and one parameter step in training mode, each alone."""
  return (
    STEPS * typical(parts["inputs"], repeats) + typical(parts["params"], repeats) + typical(parts["updates"], repeats)
  )
