"""The last dense layer of any network: what it sees, and its form on the hypersphere.

Both look over a network's shoulder while it is applied (`nn.intercept_methods`), so that no architecture needs code of
its own: the head is the one dense layer that maps a row of features to as many numbers as there are classes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array

_SMALLEST = 1e-12


@contextlib.contextmanager
def at_head(num_classes: int, instead: Callable[[nn.Dense, Array], Array | None]) -> Iterator[None]:
  """Calls `instead(layer, features)` at the head; None leaves the layer as it is."""
  found = []

  def intercept(function: Callable, args: tuple, kwargs: dict, context: Any) -> Any:
    layer, out = context.module, function(*args, **kwargs)  # Also makes the parameters that do not exist yet.
    called = isinstance(layer, nn.Dense) and context.method_name == "__call__"
    if not called or layer.features != num_classes or args[0].ndim != 2:
      return out
    found.append(layer.name)
    other = instead(layer, args[0])
    return out if other is None else other

  with nn.intercept_methods(intercept):
    yield
  if len(found) != 1:
    names = ", ".join(map(str, found)) or "none"
    raise InputError(f"the network needs one dense layer of {num_classes} classes as its head, found {names}")


def with_features(module: nn.Module, variables: Any, images: Array, **options: Any) -> tuple[Any, Array]:
  """Returns what `module.apply` returns, and what its head saw."""
  seen: list[Array] = []
  with at_head(module.num_classes, lambda layer, features: seen.append(features)):
    out = module.apply(variables, images, **options)
  return out, seen[0]


class Hypersphere(nn.Module):
  """A network whose logits are `scale` times the cosines between its features and the classes' weights.

  Features and the weights of each class are divided by their l2 norms, and the bias is left out: Pang et al. 2020
  (arXiv:2002.08619), scale 15. The parameters keep the names that they have without it.
  """

  network: nn.Module
  scale: float = 15.0

  @property
  def num_classes(self) -> int:
    return self.network.num_classes

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    nn.share_scope(self, self.network)

    def cosines(layer: nn.Dense, features: Array) -> Array:
      kernel = layer.variables["params"]["kernel"].astype(features.dtype)
      return self.scale * _unit(features, -1) @ _unit(kernel, 0)

    with at_head(self.num_classes, cosines):
      return self.network(x, train)


def _unit(x: Array, axis: int) -> Array:
  # The maximum inside the root: a vector of zeros has a gradient.
  return x / jnp.sqrt(jnp.maximum(jnp.sum(jnp.square(x), axis, keepdims=True), _SMALLEST))
