"""How much the logits of a network move with its input: the Frobenius norm of the input-output Jacobian.

For one image x with logits z(x) in R^C, |J|_F² = Σ_c |∂z_c/∂x|². Exactly that takes C backward passes. Hoffman et al.
2019 (arXiv:1908.02729) need fewer: with v uniform on the unit sphere of R^C,

  |J|_F² = C E |v^T J|²,

estimated by the mean over some draws of v; the relative error falls with the square root of draws times images.

Robustness papers store different things under this name. The public JacobianReg returns half the mean *squared* norm of
a batch, arXiv:2306.06712 prints a root over absolute values and means that over 10 mini-batches of 256. Here each image
keeps its squared norm, and `Jacobian` names both readings. Derivatives are with respect to what the classifier takes,
images in [0, 1]; for the papers' values give one without normalization (mean 0, std 1) normalized images.
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

  @property
  def root_mean_square(self) -> float:
    """Returns the root of the mean square: JacobianReg's value is half its square."""
    return float(np.sqrt(self.squared.mean()))


def jacobian(
  classifier: Classifier, images: Array, key: Array | None = None, num_projections: int | None = None
) -> Jacobian:
  """Measures the Jacobian of each image of a batch.

  Each pass is one jitted backward pass called from the host, the same program for all cells of `one_program`.

  Args:
    classifier: deterministic.
    images: (N, H, W, C).
    key: draws the projections.
    num_projections: how many; None computes the exact norm, with one pass per class.

  Returns:
    Squared norms per image, and their cost.
  """
  if classifier.randomized:
    raise InputError("the Jacobian of a randomized classifier is not one matrix")
  classes, images = classifier.num_classes, jnp.asarray(images)
  if num_projections is None:
    rows = [jnp.broadcast_to(row, (len(images), classes)) for row in jnp.eye(classes)]
    total = sum(np.asarray(_row_norms(classifier, images, row)) for row in rows)
    return Jacobian(np.asarray(total), classes, True)
  if key is None or num_projections < 1:
    raise InputError("random projections need a key, and at least one of them")
  total = np.zeros(len(images), np.float32)
  for one in jax.random.split(key, num_projections):
    draws = jax.random.normal(one, (len(images), classes))
    total += np.asarray(_row_norms(classifier, images, draws / jnp.linalg.norm(draws, axis=1, keepdims=True)))
  return Jacobian(classes * total / num_projections, num_projections, False)


@jax.jit
def _row_norms(classifier: Classifier, images: Array, directions: Array) -> Array:
  """|v^T J|² of each image for its own v; images do not mix in evaluation mode, so one backward pass serves all."""
  gradient = jax.vjp(classifier, images)[1](directions)[0]
  return jnp.sum(jnp.square(gradient.astype(jnp.float32)), axis=tuple(range(1, gradient.ndim)))
