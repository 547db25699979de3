"""Perceptual distances: how far apart two images are in the features of a network.

Two distances that are easily mixed up, both from the features f_l of some layers l with H_l × W_l positions:

  LPIPS as a threat    d(x, x') = |phi(x) - phi(x')|_2,  phi = concat_l f_l / ((|f_l| + 1e-10) sqrt(H_l W_l))
  LPIPS with heads     sum_l mean over positions of w_l · (f_l/|f_l| - f'_l/|f'_l|)²

The first, without learned weights and with a square root, is what perceptual adversarial training bounds (Laidlaw et
al. 2021, arXiv:2006.12655). The second is the metric of Zhang et al. 2018 (arXiv:1801.03924), for reports. |f_l| is
taken over channels. A budget means something under one network alone, so a threat's name has the network's in it.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.core.summation import ordered_sum
from jaxrobust.core.threat import Threat
from jaxrobust.core.types import Array

_TINY = 1e-10
SELF = "lpips-self"


@functools.partial(jax.tree_util.register_dataclass, data_fields=("variables",), meta_fields=("apply",))
@dataclasses.dataclass(frozen=True)
class FeatureNetwork:
  """The layers of a network that a perceptual distance looks at; a pytree like a classifier.

  Attributes:
    variables: a pytree of arrays; traced.
    apply: `apply(variables, images)` returns a pytree of features, (N, …, channels) each, of images in [0, 1].
  """

  variables: Any
  apply: Callable[[Any, Array], Any]

  def features(self, images: Array) -> Any:
    return self.apply(self.variables, images)

  @property
  def fingerprint(self) -> str:
    """Returns a short hash over every weight."""
    digest = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(self.variables):
      array = np.ascontiguousarray(leaf, np.float32)
      digest.update(f"{jax.tree_util.keystr(path)} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()[:16]


def unit_features(features: Any) -> list[Array]:
  """Returns every layer's features with vectors of length one at each position; zero vectors stay zero."""
  return [layer / (_lengths(layer) + _TINY) for layer in jax.tree.leaves(features)]


def _lengths(layer: Array) -> Array:
  return _root(jnp.sum(jnp.square(layer), axis=-1, keepdims=True))


def _root(squares: Array) -> Array:
  # The gradient of a root at zero is not finite; where nothing is seen nothing changes either.
  return jnp.where(squares > 0, jnp.sqrt(jnp.where(squares > 0, squares, 1.0)), 0.0)


def length(vector: Array) -> Array:
  """Returns the l2 norm of a vector, whose gradient at zero is zero.

  >>> float(length(jnp.array([3.0, 4.0]))), float(jax.grad(length)(jnp.zeros(1))[0])
  (5.0, 0.0)
  """
  return _root(ordered_sum(jnp.square(vector)))


def _positions(layer: Array) -> int:
  return math.prod(layer.shape[1:-1])


@functools.partial(jax.tree_util.register_dataclass, data_fields=("network",), meta_fields=("name",))
@dataclasses.dataclass(frozen=True)
class Lpips(Threat):
  """The distance of two images in a network's normalized features, or in those of the attacked classifier itself.

  Attributes:
    network: a `FeatureNetwork`, or a classifier that offers features; None for that of the attacked classifier.
    name: `lpips-self`, or `lpips-` with the network's name and fingerprint.

  Example:
    >>> sees = FeatureNetwork(jnp.eye(3), lambda weights, images: images @ weights)
    >>> image, other = jnp.zeros((2, 2, 3)).at[..., 0].set(1.0), jnp.zeros((2, 2, 3)).at[..., 1].set(1.0)
    >>> round(float(Lpips(sees, "lpips-eye").distance(image, other)), 4)
    1.4142
  """

  network: Any = None
  name: str = SELF

  @classmethod
  def of(cls, network: FeatureNetwork, name: str) -> Lpips:
    """Returns the distance in a named network's features; the threat's name has the weights' fingerprint in it."""
    return cls(network, f"lpips-{name}.{network.fingerprint[:6]}")

  def embed(self, image: Array) -> Array:
    """Returns phi of one image, a vector."""
    return self.phi(self.network.features(image[None]))

  def phi(self, features: Any) -> Array:
    """Returns phi of the features of one image."""
    layers = unit_features(features)
    return jnp.concatenate([layer.ravel() / math.sqrt(_positions(layer)) for layer in layers])

  def distance(self, original: Array, image: Array, witness: Any = None) -> Array:
    del witness
    return length(self.embed(image) - self.embed(original))

  def tolerance(self, shape: tuple[int, ...]) -> float:
    """Returns what float32 adds to the difference of two vectors whose length is the root of the number of layers."""
    del shape
    return 1e-5

  def for_classifier(self, classifier: Any) -> Lpips:
    return self if self.name != SELF else dataclasses.replace(self, network=classifier)

  def config(self) -> dict[str, Any]:
    own = self.name == SELF
    return {**super().config(), "network": "self" if own else self.network.fingerprint}


OWN = Lpips()
"""The distance in the attacked classifier's own features."""


@functools.partial(jax.tree_util.register_dataclass, data_fields=("network", "heads"), meta_fields=("name",))
@dataclasses.dataclass(frozen=True)
class LearnedLpips(Threat):
  """LPIPS with learned heads, as the package `lpips` computes it: a metric for reports, and no root is taken.

  Its network sees (x - mean) / std of ImageNet, which is what `lpips` makes of 2x - 1 by its shift and scale.

  Attributes:
    network: whose layers are compared.
    heads: a non-negative weight for each channel of each layer.
    name: `lpips-learned-` with the network's name.
  """

  network: Any
  heads: tuple[Array, ...]
  name: str = "lpips-learned"

  def distance(self, original: Array, image: Array, witness: Any = None) -> Array:
    del witness
    layers = unit_features(self.network.features(jnp.stack([original, image])))
    means = [
      jnp.sum(jnp.square(layer[0] - layer[1]) * head) / _positions(layer)
      for layer, head in zip(layers, self.heads, strict=True)
    ]
    return sum(means[1:], means[0])

  def tolerance(self, shape: tuple[int, ...]) -> float:
    del shape
    return 1e-5

  def config(self) -> dict[str, Any]:
    return {**super().config(), "network": self.network.fingerprint}
