"""Perceptual distances with real weights equal those of perceptual-advex and of PyPI's lpips."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxrobust.core.errors import InputError, JaxrobustError
from jaxrobust.core.lpips import Lpips
from jaxrobust.models.perceptual import make_metric, make_threat
from jaxrobust.models.weights.convert import convert_checkpoint
from jaxrobust.models.zoo import load_classifier
from tests.realdata import ROOT, cifar10_test, needs_data

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "perceptual_distances.json").read_text())


@needs_data
@pytest.mark.slow
def test_distances_of_real_networks_are_the_references(tmp_path):
  images, _ = cifar10_test(48)
  file = ROOT / "weights" / "lpips_alexnet.npz"
  normalization = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
  convert_checkpoint(ROOT / "weights" / "recoloradv" / "delta.resnet32.pt", "resnet32", tmp_path, **normalization)
  threats = {
    "learned": make_metric(f"lpips-alexnet:{file}"),
    "alexnet": make_threat(f"lpips-alexnet:{file}"),
    "self": Lpips().for_classifier(load_classifier(tmp_path)),
  }
  for name, threat in threats.items():
    found = jax.jit(jax.vmap(threat.distance))(images[:24], images[24:])
    np.testing.assert_allclose(found, GOLDEN[name], atol=1e-5, err_msg=name)


def test_names_and_files_that_cannot_be_are_refused():
  assert make_threat("lpips-cifar10-alexnet-half").name == "lpips-cifar10-alexnet-half.912787"
  with pytest.raises(JaxrobustError, match="did you mean 'lpips-alexnet'"):
    make_threat("lpips-alexnett")
  with pytest.raises(InputError, match=r"no weights for lpips-alexnet-cifar: give a file"):
    make_threat("lpips-alexnet-cifar")
  with pytest.raises(InputError, match="0 learned heads, cifar10-alexnet-half needs 5"):
    make_metric("lpips-cifar10-alexnet-half")
