"""Real data and networks for the tests that compare against published numbers.

They are looked for in $JAXROBUST_DATA, then beside the checkout; a test that needs them skips without.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib

import numpy as np
import pytest

from jaxrobust.bench.workloads import load_cifar_network
from jaxrobust.core.classifier import Classifier
from jaxrobust.models.families.cnn import CNN
from jaxrobust.models.weights.convert import convert_checkpoint
from jaxrobust.models.zoo import load_classifier

_BESIDE = pathlib.Path(__file__).resolve().parents[2] / "shared" / "data"
ROOT = pathlib.Path(os.environ.get("JAXROBUST_DATA", _BESIDE))

needs_data = pytest.mark.skipif(
  not (ROOT / "README.md").exists(), reason="real data not found; set JAXROBUST_DATA to its folder"
)


def cifar10_test(n: int = 10_000) -> tuple[np.ndarray, np.ndarray]:
  """The first n CIFAR-10 test images in [0, 1] and their labels."""
  with np.load(ROOT / "cifar10_test.npz") as data:
    return data["images"][:n].astype(np.float32) / 255, data["labels"][:n].astype(np.int32)


def lite0(folder: pathlib.Path) -> Classifier:
  """EfficientNet-Lite0 with its real weights, converted into a folder."""
  weights = ROOT / "weights" / "imagenet_efficientnet_lite0.npz"
  convert_checkpoint(weights, "tf_efficientnet_lite0", folder, mean=(0.498,) * 3, std=(0.502,) * 3)
  return load_classifier(folder)


@functools.cache
def cifar10_network(name: str) -> Classifier:
  """`resnet20`, `resnet56`, `resnet2b_adv`, `kw_base`, `kw_wide`, `cnn_a_adv` or `cnn_a_adv4` with its real weights."""
  return load_cifar_network(ROOT, name)


@functools.cache
def fmnist_network() -> Classifier:
  """The adversarially trained Fashion-MNIST network the reference runs attacked (inputs 28×28×1)."""
  import jax.numpy as jnp

  with np.load(ROOT / "reference" / "fmnist_adv_weights.npz") as data:
    weights = {name: np.asarray(data[name]) for name in data}
  params: dict = {}
  for name, array in weights.items():
    layer, leaf = name.split("/")
    if name == "fc1/kernel":  # Rows are in H, W, C order; our module flattens channels first.
      array = array.reshape(7, 7, 32, 100).transpose(2, 0, 1, 3).reshape(1568, 100)
    params.setdefault(layer, {})[leaf] = jnp.asarray(array)
  return Classifier.from_module(CNN(), {"params": params}, input_shape=(28, 28, 1))


def fmnist_test(n: int = 1000) -> tuple[np.ndarray, np.ndarray]:
  """The first n images and labels of the reference runs."""
  with np.load(ROOT / "reference" / "fmnist_test1000.npz") as data:
    names = list(data)
    images = next(data[name] for name in names if data[name].ndim >= 3)
    labels = next(data[name] for name in names if data[name].ndim == 1)
  images = images.reshape(-1, 28, 28, 1)
  scale = 255 if images.dtype == np.uint8 else 1
  return images[:n].astype(np.float32) / scale, labels[:n].astype(np.int32)


@functools.cache
def reference_runs() -> dict:
  """Runs of other implementations on `fmnist_network`, by 'peer/attack_norm'."""
  return json.loads((ROOT / "reference" / "fmnist_adv.json").read_text())


def reference_flags(name: str) -> np.ndarray:
  """Per example: whether the peer's run left it robust."""
  return np.array([bit == "1" for bit in reference_runs()[name]["robust"]])
