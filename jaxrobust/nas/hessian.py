"""The largest eigenvalue of the loss's Hessian, with respect to the input or to the weights, by Lanczos' method.

Zhao et al. 2020 (arXiv:2005.00060) tie the largest eigenvalue of the *input* Hessian to the adversarial loss; GradVis
(arXiv:1909.12108), which arXiv:2306.06712 cites for its numbers, takes that of the *weights*. Both are here:

  input     H_i = ∂² loss(z(x_i), y_i) / ∂x_i²,          one eigenvalue per image
  weights   H = ∂² mean_i loss(z(x_i), y_i) / ∂θ²,       one eigenvalue per batch

with the cross-entropy, batch statistics as stored, and the algebraically largest eigenvalue (GradVis' "LA").

The Hessian is never formed. Its products with vectors are gradients of ⟨gradient, v⟩, reverse over reverse: layers with
a backward rule of their own know no forward mode. Images do not mix in evaluation mode, so one product over a batch
serves the Hessians of all its images at once. Where the softmax is saturated in float32, the Hessian is 0, and so is
the result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array

# A vector shorter than this part of the spectrum seen so far is rounding: the space of the start is exhausted.
_EXHAUSTED = 1e-5


class Eigenvalue(NamedTuple):
  """Largest eigenvalues.

  Attributes:
    value: (N,) for images, (1,) for weights.
    residual: same shape, |H u - value u| of the approximate eigenvector u: some eigenvalue is at most this far away.
    products: products with the Hessian that were made, each about two gradients.
  """

  value: np.ndarray
  residual: np.ndarray
  products: int


def largest_eigenvalue(
  classifier: Classifier,
  images: Array,
  labels: Array,
  wrt: str = "input",
  *,
  key: Array | None = None,
  max_products: int = 40,
  tolerance: float = 1e-4,
) -> Eigenvalue:
  """Finds the largest eigenvalue of the Hessian of the cross-entropy.

  Each product is one jitted call from the host, the same program for all cells of `one_program`. For weights at the
  benchmark's full size that program takes minutes to compile on a CPU, a native network half a minute: `narrow` first.
  Weights that a cell does not use have only zeros in the Hessian, and change the result only where all other
  eigenvalues are negative.

  Args:
    classifier: deterministic; a linen module or `one_program` where `wrt` is "weights".
    images: (N, H, W, C) in [0, 1].
    labels: (N,) true classes.
    wrt: "input" or "weights".
    key: draws the start; `jax.random.key(0)` by default.
    max_products: at most; each keeps one vector as long as what is differentiated.
    tolerance: stops once all residuals are below this part of their eigenvalues.

  Returns:
    Eigenvalues, how far off they may be, and their cost.
  """
  if wrt not in ("input", "weights"):
    raise InputError(f"wrt is 'input' or 'weights', got {wrt!r}")
  if wrt == "weights" and not (isinstance(classifier.variables, dict) and "module" in classifier.variables):
    raise InputError("this classifier keeps no weights of a module apart; make it with from_module or one_program")
  images, labels = jnp.asarray(images), jnp.asarray(labels, jnp.int32)
  length = images[0].size if wrt == "input" else sum(x.size for x in jax.tree.leaves(_weights(classifier)))
  start = jax.random.normal(jax.random.key(0) if key is None else key, (len(images) if wrt == "input" else 1, length))
  product = _input_product if wrt == "input" else _weight_product
  return lanczos(partial(product, classifier, images, labels), start, max_products, tolerance)


def lanczos(product: Callable[[Array], Array], start: Array, max_products: int, tolerance: float) -> Eigenvalue:
  """Finds the largest eigenvalue of each of several symmetric matrices at once.

  From q_1 = start / |start|: β_k q_{k+1} = H q_k - α_k q_k - β_{k-1} q_{k-1}, orthogonalized against all q before, as
  float32 needs. The eigenvalues of the tridiagonal matrix of α and β approach those of H from inside.

  Args:
    product: from (N, D) vectors to their products, row by row.
    start: (N, D).
    max_products: at most; never more than D.
    tolerance: stops once all residuals are below this part of their eigenvalues.

  Returns:
    Eigenvalues, residuals β_k |last entry of the eigenvector|, and the number of products.
  """
  steps = min(max_products, start.shape[1])
  vector, basis = start / jnp.linalg.norm(start, axis=1, keepdims=True), jnp.zeros((steps, *start.shape))
  alphas, betas = np.zeros((0, len(start))), np.zeros((0, len(start)))
  for step in range(steps):
    basis = basis.at[step].set(vector)
    vector, alpha, beta = _orthogonalize(product(vector), basis, step)
    alphas, betas = np.vstack([alphas, alpha]), np.vstack([betas, beta])
    found = _ritz(alphas, betas)
    if np.all(found.residual <= tolerance * np.abs(found.value)):
      break
  return found


@jax.jit
def _orthogonalize(image: Array, basis: Array, step: Array) -> tuple[Array, Array, Array]:
  """Returns the next vector, and the entries of the tridiagonal matrix."""
  alpha = jnp.sum(basis[step] * image, axis=1)
  for _ in range(2):  # Once leaves rounding errors that grow.
    image = image - jnp.einsum("knd,kn->nd", basis, jnp.einsum("knd,nd->kn", basis, image))
  beta = jnp.linalg.norm(image, axis=1)
  return image / jnp.maximum(beta, 1e-30)[:, None], alpha, beta


def _ritz(alphas: np.ndarray, betas: np.ndarray) -> Eigenvalue:
  """Returns largest eigenvalues of the tridiagonal matrices, (K, N) entries, cut where a row's space was exhausted."""
  steps, rows = alphas.shape
  size = np.maximum.accumulate(np.maximum(np.abs(alphas), betas))
  ended = np.cumsum(betas <= _EXHAUSTED * size, axis=0) > 0
  beyond = np.vstack([np.zeros((1, rows), bool), ended[:-1]])
  betas = np.where(ended, 0.0, betas)
  # Below every eigenvalue, so that what lies beyond the cut is never the largest.
  diagonal = np.where(beyond, -4 * size[-1] - 1, alphas)
  matrices = np.zeros((rows, steps, steps))
  index = np.arange(steps)
  matrices[:, index, index] = diagonal.T
  matrices[:, index[1:], index[:-1]] = betas[:-1].T
  values, vectors = np.linalg.eigh(matrices)  # Reads the lower half.
  return Eigenvalue(values[:, -1], betas[-1] * np.abs(vectors[:, -1, -1]), steps)


def _cross_entropy(classifier: Classifier, images: Array, labels: Array) -> Array:
  """Returns the loss of each image."""
  return -jnp.take_along_axis(jax.nn.log_softmax(classifier(images)), labels[:, None], axis=1)[:, 0]


@jax.jit
def _input_product(classifier: Classifier, images: Array, labels: Array, vectors: Array) -> Array:
  gradient = jax.grad(lambda x: jnp.sum(_cross_entropy(classifier, x, labels)))
  product = jax.grad(lambda x: jnp.vdot(gradient(x), vectors.reshape(images.shape)))(images)
  return product.reshape(vectors.shape)


def _weights(classifier: Classifier) -> Any:
  return classifier.variables["module"]["params"]


def _with_weights(classifier: Classifier, weights: Any) -> Classifier:
  variables = classifier.variables
  module = {**variables["module"], "params": weights}
  return Classifier(
    {**variables, "module": module},
    classifier.apply,
    classifier.num_classes,
    classifier.randomized,
    classifier.input_shape,
  )


@jax.jit
def _weight_product(classifier: Classifier, images: Array, labels: Array, vectors: Array) -> Array:
  flat, unravel = ravel_pytree(_weights(classifier))
  loss = lambda w: jnp.mean(_cross_entropy(_with_weights(classifier, unravel(w)), images, labels))
  return jax.grad(lambda w: jnp.vdot(jax.grad(loss)(w), vectors[0]))(flat)[None]
