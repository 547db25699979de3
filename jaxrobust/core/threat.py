"""Threats as values: what a perturbation may be, and how large it is.

A threat measures the distance of an image to its original, or that of the *witness* the image was rendered from (a flow
field, a color table). The verification asks it and nothing else; the three norms are three of them.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from jaxrobust.core.budget import BALL_ATOL, check_norm, rounding_tolerance
from jaxrobust.core.summation import ordered_sum

Array = jax.Array


def norm_distance(norm: str, delta: Array) -> Array:
  """Returns the norm of a perturbation of any shape.

  >>> [float(norm_distance(n, jnp.array([3.0, -4.0]))) for n in ("l1", "l2", "linf")]
  [7.0, 5.0, 4.0]
  """
  if norm == "linf":
    return jnp.max(jnp.abs(delta))
  if norm == "l1":
    return ordered_sum(jnp.abs(delta))
  # Scaling first keeps 1e-30 and 1e30 alike from under- or overflowing when squared; it does not change the gradient.
  scale = jax.lax.stop_gradient(jnp.max(jnp.abs(delta)))
  safe = jnp.where(scale > 0, scale, 1.0)
  return scale * jnp.sqrt(ordered_sum(jnp.square(delta / safe)))


class Threat:
  """The set of allowed perturbations; a subclass is a frozen dataclass.

  A threat may hold arrays, such as the weights of a feature network. It is then a pytree (see
  `jax.tree_util.register_dataclass`), and its arrays are arguments of the compiled programs, never constants in them.

  Attributes:
    name: the first part of ids and cells: `linf`, `lpips-alexnet`.
    unit: what distances are measured in, for the axes of curves (`pixels`); empty where a number is all.
    witnessed: whether distances are those of the witness that an image was rendered from. Attacks then report one
      with every point, and the verification renders it again.
  """

  name: str
  unit: ClassVar[str] = ""
  witnessed: ClassVar[bool] = False

  def distance(self, original: Array, image: Array, witness: Any = None) -> Array:
    """Returns how far one image, or its witness, is from the original; NaN where that is not defined."""
    raise NotImplementedError

  def tolerance(self, shape: tuple[int, ...]) -> float:
    """Returns by how much rounding may carry the distance of an image of this shape beyond a budget."""
    del shape
    return BALL_ATOL

  def render(self, original: Array, witness: Any) -> Array:
    """Returns the image that a witness stands for."""
    raise NotImplementedError

  def picture(self, original: Array, witness: Any) -> Array | None:
    """Returns a witness as people can look at it, (H, W, 3) in [0, 1] as large as the image; None for nothing."""
    del original, witness
    return None

  def for_classifier(self, classifier: Any) -> Threat:
    """Returns the threat against one classifier; a threat measured in the classifier's own features takes them here.

    Asked again inside programs, where the weights of the classifier are traced.
    """
    del classifier
    return self

  def config(self) -> dict[str, Any]:
    """Returns what decides distances, as plain JSON values; weights by their fingerprint."""
    return {"name": self.name, **({"unit": self.unit} if self.unit else {})}


@functools.partial(jax.tree_util.register_dataclass, data_fields=(), meta_fields=("name",))
@dataclass(frozen=True)
class Norm(Threat):
  """The l1, l2 or linf norm of the perturbation.

  >>> float(Norm("linf").distance(jnp.zeros(2), jnp.array([0.25, -0.5])))
  0.5
  """

  name: str

  def __post_init__(self) -> None:
    check_norm(self.name)

  def distance(self, original: Array, image: Array, witness: Any = None) -> Array:
    del witness
    # Flat vectors: XLA:CPU passes over a last axis of three channels several times slower.
    return norm_distance(self.name, image.ravel() - original.ravel())

  def tolerance(self, shape: tuple[int, ...]) -> float:
    return rounding_tolerance(self.name, math.prod(shape))


class _NormOf:
  """Descriptor: the threat of an attack that has a field `norm`."""

  def __get__(self, attack: Any, owner: type) -> Any:
    return self if attack is None else Norm(attack.norm)


by_norm: Any = _NormOf()
"""`threat = by_norm` in an attack's class body: the norm that its field `norm` names."""
