"""What the benches run on: published CIFAR-10 networks where they are at hand, the embedded digits elsewhere.

`$JAXROBUST_DATA` may name a folder with `cifar10_test.npz` and `weights/cifar10_*.npz` (flat PyTorch state dicts).
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.mesh import fitting_mesh, replicated, row_sharding
from jaxrobust.data.registry import load_data
from jaxrobust.models.registry import MODELS, make_model
from jaxrobust.models.weights.torch_weights import from_torch
from jaxrobust.models.zoo import load_classifier


class Workload(NamedTuple):
  """A classifier with images and labels."""

  name: str
  classifier: Classifier
  images: np.ndarray
  labels: np.ndarray


def spread(model: Any, rows: Any) -> tuple[Any, Any]:
  """Returns a copy of the model's arrays on each device, and rows split over them: as commands evaluate and train."""
  mesh = fitting_mesh(len(jax.tree.leaves(rows)[0]))
  return jax.device_put(model, replicated(mesh)), jax.device_put(rows, row_sharding(mesh))


def data_folder() -> Path | None:
  """Returns the folder named by $JAXROBUST_DATA, if it is one."""
  folder = Path(os.environ.get("JAXROBUST_DATA", ""))
  return folder if os.environ.get("JAXROBUST_DATA") and (folder / "cifar10_test.npz").exists() else None


def load_cifar_network(folder: Path, name: str) -> Classifier:
  """Loads `resnet20`, `resnet56`, `resnet2b_adv`, `kw_base`, `kw_wide` or `cnn_a_*` with its published weights."""
  with np.load(folder / "weights" / f"cifar10_{name}.npz") as data:
    state = dict(data)
  arch = name.partition("_adv")[0].replace("_", "-")
  spec, module = MODELS[arch], make_model(arch)
  variables = from_torch(module, state, spec.input_size)
  return Classifier.from_module(module, variables, mean=spec.mean, std=spec.std, input_shape=spec.input_size)


def workload(network: str, n: int) -> Workload:
  """Returns the named CIFAR-10 network and the first n test images, or a stand-in trained on the spot."""
  folder = data_folder()
  if folder is None:
    return _digits(n)
  with np.load(folder / "cifar10_test.npz") as data:
    images, labels = data["images"][:n].astype(np.float32) / 255, data["labels"][:n].astype(np.int32)
  return Workload(f"cifar10 {network}", load_cifar_network(folder, network), images, labels)


def _digits(n: int) -> Workload:
  from jaxrobust.training.config import TrainConfig
  from jaxrobust.training.loop import train

  with tempfile.TemporaryDirectory() as folder:
    classifier = load_classifier(train(TrainConfig(epochs=4), Path(folder) / "model", quiet=True))
  data = load_data("digits32")
  images, labels = data.take(np.arange(min(n, len(data))))
  return Workload("digits32 cnn-tiny", classifier, images, labels)
