"""Certificates of published networks: equal to another implementation's, and never broken."""

from __future__ import annotations

import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.certify.certifier import METHODS, certify_images
from jaxrobust.certify.crown import BoundMethod, lower_bounds
from jaxrobust.certify.program import read_program
from jaxrobust.certify.region import Region
from jaxrobust.core.classifier import Classifier
from tests.realdata import cifar10_network, cifar10_test, needs_data

GOLDEN = json.loads((pathlib.Path(__file__).parents[1] / "golden" / "convex_adversarial.json").read_text())


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("row", GOLDEN["rows"], ids=lambda row: row["eps"])
def test_equal_to_convex_adversarial(row: dict) -> None:
  """Wong and Kolter's own dual bound on kw-base, the first 40 test images: margins, and how many are certified."""
  model, (images, labels) = cifar10_network("kw_base"), cifar10_test(40)
  method: BoundMethod = METHODS["kw"][0]

  @jax.jit
  def margins(model: Classifier, images: jax.Array, labels: jax.Array, eps: jax.Array) -> jax.Array:
    program, classes = read_program(model, images.shape[1:]), jnp.eye(10)

    def one(image: jax.Array, label: jax.Array) -> jax.Array:
      region = Region.around("linf", image, eps, box=False)
      return lower_bounds(program, region, classes[label] - classes, method).value

    return jax.vmap(one)(images, labels)

  eps = float(row["eps"].partition("/")[0]) / 255
  found = np.concatenate([margins(model, images[at : at + 4], labels[at : at + 4], eps) for at in range(0, 40, 4)])
  smallest = np.where(np.arange(10) == labels[:, None], np.inf, found).min(1)
  np.testing.assert_allclose(smallest, row["margins"], atol=2e-4)
  assert (smallest > 0).sum() == row["certified"]
  better = certify_images(model, images, labels, row["eps"]).certified
  assert (better | ~(smallest > 1e-3)).all()
  assert better.sum() >= row["certified"]
