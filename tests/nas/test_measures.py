"""Jacobian norms and Hessian eigenvalues against dense matrices of tiny networks."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.nas import hessian
from jaxrobust.nas.hessian import lanczos, largest_eigenvalue
from jaxrobust.nas.jacobian import jacobian
from jaxrobust.nas.one_program import OneProgram

PROGRAM = OneProgram(width=2, depth=1, num_classes=4)
CELL = (3, 2, 4, 1, 2, 3)
IMAGES = jax.random.uniform(jax.random.key(2), (3, 8, 8, 3))
LABELS = jnp.array([0, 3, 1])


@functools.cache
def native(cell=CELL):
  """A tiny network with some scale in its logits."""
  module = PROGRAM.native(cell)
  variables = jax.jit(module.init)(jax.random.key(4), IMAGES[:1])
  return Classifier.from_module(module, jax.tree.map(lambda x: 1.2 * x, variables))


@functools.cache
def wide(cell=CELL):
  """The same through the one program."""
  variables = PROGRAM.widen(cell, native(cell).variables["module"])
  return PROGRAM.classifier(cell, variables, mean=(0.0,) * 3, std=(1.0,) * 3)


@pytest.fixture(autouse=True, scope="module")
def made_outside():
  """A network that is made for the first time inside a traced function would keep its tracers."""
  native()


def loss(classifier, images, labels):
  return -jnp.take_along_axis(jax.nn.log_softmax(classifier(images)), labels[:, None], 1).mean()


@functools.cache
def dense_jacobian_norms():
  matrices = jax.jit(jax.vmap(jax.jacrev(lambda x: native()(x[None])[0])))(IMAGES)
  return np.square(np.asarray(matrices)).sum((1, 2, 3, 4))


@pytest.mark.ci
@pytest.mark.parametrize("classifier", [native, wide])
def test_the_exact_jacobian_norm_is_that_of_the_dense_matrix(classifier):
  found = jacobian(classifier(), IMAGES)
  np.testing.assert_allclose(found.squared, dense_jacobian_norms(), rtol=1e-3)
  assert found.exact and found.gradients == 4
  assert found.norm == pytest.approx(np.sqrt(dense_jacobian_norms()).mean(), rel=1e-3)


def test_random_projections_are_unbiased():
  found = jacobian(native(), IMAGES, jax.random.key(0), num_projections=400)
  assert not found.exact and found.gradients == 400
  np.testing.assert_allclose(found.squared, dense_jacobian_norms(), rtol=0.15)


@pytest.mark.parametrize("classifier", [native, pytest.param(wide, marks=pytest.mark.ci)])
def test_the_input_hessian_has_the_eigenvalue_of_the_dense_matrix(classifier):
  one = lambda x, y: loss(native(), x.reshape(1, 8, 8, 3), y[None])
  dense = jax.jit(jax.vmap(jax.jacrev(jax.grad(one))))(IMAGES.reshape(3, -1), LABELS)
  wanted = np.linalg.eigvalsh(np.asarray(dense, np.float64))[:, -1]
  found = largest_eigenvalue(classifier(), IMAGES, LABELS, "input")
  np.testing.assert_allclose(found.value, wanted, rtol=1e-3)
  assert np.all(found.residual <= 1e-3 * found.value) and found.products <= 40


@pytest.mark.ci
@pytest.mark.parametrize("classifier", [native, wide])
def test_the_weight_hessian_has_the_eigenvalue_of_the_dense_matrix(classifier):
  flat, unravel = ravel_pytree(native().variables["module"]["params"])
  function = lambda w: loss(hessian._with_weights(native(), unravel(w)), IMAGES, LABELS)
  wanted = np.linalg.eigvalsh(np.asarray(jax.jit(jax.jacrev(jax.grad(function)))(flat), np.float64))[-1]
  found = largest_eigenvalue(classifier(), IMAGES, LABELS, "weights")
  assert found.value.shape == (1,) and found.value[0] == pytest.approx(wanted, rel=1e-3)


@pytest.mark.ci
def test_cells_share_the_programs_of_the_measures():
  for cell in (CELL, (1, 0, 2, 3, 4, 0)):
    jacobian(wide(cell), IMAGES)
    largest_eigenvalue(wide(cell), IMAGES, LABELS, max_products=2)
    if cell == CELL:
      sizes = hessian._input_product._cache_size()
  assert hessian._input_product._cache_size() == sizes


def test_lanczos_finds_the_largest_not_the_most_negative_and_survives_an_exhausted_space():
  matrices = np.stack([np.diag([-9.0, 1, 2, 3]), np.eye(4), np.diag([-1.0, -2, -3, -4]), np.zeros((4, 4))])
  product = lambda v: jnp.einsum("nij,nj->ni", jnp.asarray(matrices, jnp.float32), v)
  found = lanczos(product, jax.random.normal(jax.random.key(0), (4, 4)), 10, 1e-6)
  np.testing.assert_allclose(found.value, [3, 1, -1, 0], atol=1e-4)
  assert found.products <= 4


def test_bad_questions_are_refused():
  with pytest.raises(InputError, match="'input' or 'weights'"):
    largest_eigenvalue(native(), IMAGES, LABELS, "images")
  with pytest.raises(InputError, match="keeps no weights"):
    largest_eigenvalue(Classifier.from_function(lambda x: x[:, 0, 0], 3), IMAGES, LABELS, "weights")
  with pytest.raises(InputError, match="need a key"):
    jacobian(native(), IMAGES, num_projections=2)
