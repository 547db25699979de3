"""Forward pass and input gradient of networks: against PyTorch, and inside a device loop against outside.

  jaxrobust bench models --peer_python=PYTHON [--only=resnet50] [--repeats=3]

Ours and PyTorch's take turns; PyTorch runs in whichever memory layout is faster for it. `ratio` is how many times
faster ours is. The rows about loops give the time of a gradient step inside `fori_loop` and inside `switch` (within a
loop) over that of the same step dispatched from the host; XLA:CPU makes such steps many times slower unless
convolutions are written for it (`models/layers/conv.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import flax
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxrobust.bench.peers import Peers
from jaxrobust.bench.rows import Row, alternate, chosen, seconds
from jaxrobust.bench.workloads import spread
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.types import Array
from jaxrobust.models.registry import MODELS, abstract_model, make_model

# Steps inside a loop; the loop's own cost is shared among them.
_STEPS = 4


# Networks, which peers know by the same names, and their batch sizes.
BATCHES = {"cifar-resnet18": 32, "resnet50": 8, "vit_small_patch16_224": 8}


def random_classifier(name: str) -> Classifier:
  """Returns a network with random kernels: timing needs no trained ones."""
  rng = np.random.default_rng(0)

  def draw(path: tuple[str, ...], leaf: Any) -> Array:
    if len(leaf.shape) > 1:
      return jnp.asarray(rng.standard_normal(leaf.shape, np.float32) * np.sqrt(2 / np.prod(leaf.shape[:-1])))
    return jnp.full(leaf.shape, float(path[-1] in ("scale", "var")), leaf.dtype)

  flat = flax.traverse_util.flatten_dict(abstract_model(name)[1])
  variables = flax.traverse_util.unflatten_dict({path: draw(path, leaf) for path, leaf in flat.items()})
  return Classifier.from_module(make_model(name), variables)


@jax.jit
def forward(classifier: Classifier, images: Array) -> Array:
  return classifier(images)


def _step(classifier: Classifier, images: Array) -> Array:
  """Takes one step of a gradient attack."""
  gradient = jax.grad(lambda x: jnp.sum(classifier(x) ** 2))(images)
  return images + 1e-3 * jnp.sign(gradient)


step = jax.jit(_step)


@jax.jit
def loop(classifier: Classifier, images: Array) -> Array:
  return lax.fori_loop(0, _STEPS, lambda _, x: _step(classifier, x), images)


@jax.jit
def switched(classifier: Classifier, images: Array, branch: Array) -> Array:
  branches: list[Callable] = [lambda x: x, lambda x: _step(classifier, x)]
  return lax.fori_loop(0, _STEPS, lambda _, x: lax.switch(branch, branches, x), images)


def run(peer_python: str = "", only: str = "", repeats: int = 3) -> Iterator[Row]:
  """Yields all networks, or those whose name contains `only`."""
  with Peers(peer_python, Path()) as peers:
    for network in chosen(list(BATCHES), only):
      yield from _compare(network, BATCHES[network], peers, repeats)


def _compare(network: str, batch: int, peers: Peers, repeats: int) -> list[Row]:
  size = MODELS[network].input_size
  pixels = np.random.default_rng(1).uniform(0, 1, (batch, *size)).astype(np.float32)
  classifier, images = spread(random_classifier(network), pixels)
  ours = {"forward": lambda: forward(classifier, images), "gradient": lambda: step(classifier, images)}
  theirs: dict[str, Any] = {}
  times = dict.fromkeys(ours, float("inf"))
  for function in ours.values():
    seconds(function, 1)  # Compiles.
  for _ in range(repeats):
    for name, function in ours.items():
      times[name] = min(times[name], seconds(function, 2))
    reply = peers.ask(model=network, size=size[0], n=batch, repeats=2)
    for name in ours:
      if name in reply:
        theirs[name] = min(theirs.get(name, float("inf")), reply[name])
  label = f"{network} {size[0]} px, batch {batch}"
  peer = reply.get("peer", f"torchvision: {reply.get('missing')}")
  rows = [
    Row(
      f"{label}, {name}",
      batch / times[name],
      "images/s",
      peer,
      reply.get("version"),
      theirs[name] / times[name] if name in theirs else None,
    )
    for name in ours
  ]
  return rows + _loops(label, classifier, images, repeats)


def _loops(label: str, classifier: Classifier, images: Array, repeats: int) -> list[Row]:
  def outside() -> Array:
    x = images
    for _ in range(_STEPS):
      x = step(classifier, x)
    return x

  branch = jnp.asarray(1)
  contestants = {
    "outside": outside,
    "fori_loop": lambda: loop(classifier, images),
    "switch": lambda: switched(classifier, images, branch),
  }
  alternate(contestants, 1)  # Compiles.
  times, _ = alternate(contestants, repeats)
  return [
    Row(f"{label}, gradient inside {name}", times[name] / times["outside"], "times outside")
    for name in ("fori_loop", "switch")
  ]
