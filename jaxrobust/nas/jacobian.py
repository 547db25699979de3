"""How much the logits of a network move with its input: the Frobenius norm of the input-output Jacobian.

For one image x with logits z(x) in R^C, |J|_F² = Σ_c |∂z_c/∂x|². Exactly that takes C backward passes. Hoffman et al.
2019 (arXiv:1908.02729) need fewer: with v uniform on the unit sphere of R^C,

  |J|_F² = C E |v^T J|²,

estimated by the mean over some draws of v; the relative error falls with the square root of draws times images.

Robustness papers store different things under this name. The public JacobianReg returns half the mean *squared* norm of
a batch, arXiv:2306.06712 prints a root over absolute values and means that over 10 mini-batches of 256. Here each image
keeps its squared norm, and `Jacobian.norm` is the mean of their roots. Derivatives are with respect to what the
classifier takes, images in [0, 1]; for the papers' values give one without normalization (mean 0, std 1) normalized
images.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array


class Jacobian(NamedTuple):
  """Of a batch of images.

  Attributes:
    squared: (N,) squared Frobenius norms, exact or estimated.
    gradients: backward passes that were made, per image.
    exact: whether no projection was drawn.
  """

  squared: np.ndarray
  gradients: int
  exact: bool

  @property
  def norm(self) -> float:
    """Returns the mean over images of |J|_F; slightly too small where squares are estimated: the root is concave."""
    return float(np.sqrt(self.squared).mean())


def jacobian(
  classifier: Classifier, images: Array, key: Array | None = None, num_projections: int | None = None
) -> Jacobian:
  """Measures the Jacobian of each image of a batch, by the same program for all cells of `one_program`.

  Args:
    classifier: deterministic.
    images: (N, H, W, C).
    key: draws the projections, for each image those of its place.
    num_projections: how many; None computes the exact norm, with one pass per class.

  Returns:
    Squared norms per image, and their cost.
  """
  if classifier.randomized:
    raise InputError("the Jacobian of a randomized classifier is not one matrix")
  classes, images = classifier.num_classes, jnp.asarray(images)
  if num_projections is None:
    return Jacobian(np.asarray(_squared(classifier, images, all_rows(len(images), classes))), classes, True)
  if key is None or num_projections < 1:
    raise InputError("random projections need a key, and at least one of them")
  keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(len(images)))
  directions = random_rows(keys, num_projections, classes)
  return Jacobian(np.asarray(_squared(classifier, images, directions)), num_projections, False)


def all_rows(count: int, classes: int) -> Array:
  """Returns the (classes, count, classes) directions that give exact norms: every logit, for every image."""
  return jnp.broadcast_to(jnp.eye(classes)[:, None], (classes, count, classes))


def random_rows(keys: Array, num_projections: int, classes: int) -> Array:
  """Draws (num_projections, N, classes) directions, each image's from its own of the N keys.

  They are uniform on the sphere of radius sqrt(classes / num_projections): `squared_norms` along them is unbiased.

  >>> rows = random_rows(jax.random.split(jax.random.key(0), 2), 4, 3)
  >>> rows.shape, jnp.square(rows).sum(-1).round(4).tolist()[0]
  ((4, 2, 3), [0.75, 0.75])
  """
  draws = jax.vmap(lambda key: jax.random.normal(key, (num_projections, classes)), out_axes=1)(keys)
  return draws * jnp.sqrt(classes / num_projections) / jnp.linalg.norm(draws, axis=-1, keepdims=True)


def squared_norms(classifier: Classifier, images: Array, directions: Array) -> Array:
  """Computes Σ_k |v_k^T J|² of each image, with one forward pass and a backward one for each k.

  Images do not mix in evaluation mode, so a backward pass of the batch gives each image its own row.

  Args:
    classifier: deterministic.
    images: (N, H, W, C).
    directions: (K, N, classes), of each image its own.

  Returns:
    (N,), float32.
  """
  pull_back = jax.vjp(classifier, images)[1]

  def add(total: Array, rows: Array) -> tuple[Array, None]:
    (gradient,) = pull_back(rows)
    return total + jnp.sum(jnp.square(gradient.astype(jnp.float32)), axis=tuple(range(1, gradient.ndim))), None

  return jax.lax.scan(add, jnp.zeros(len(images), jnp.float32), directions)[0]


_squared = jax.jit(squared_norms)
