"""Models by name, with the metadata that travels with the name.

Adding a family is one file and one line in `_MODULES`; sizes are rows of a table in that file.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flax import linen as nn

from jaxrobust.core.registry import Registry

_MODULES = ("cnn", "resnet_cifar")

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class ModelSpec:
  """How to build a model and what to feed it.

  Attributes:
    build: `build(num_classes=…, **options)` returns a linen module.
    input_size: (H, W, C) the architecture was made for.
    mean, std: the normalisation its published weights use.
    description: one line for `jaxrobust list models`.
  """

  build: Callable[..., nn.Module]
  input_size: tuple[int, int, int]
  mean: tuple[float, ...] = (0.0, 0.0, 0.0)
  std: tuple[float, ...] = (1.0, 1.0, 1.0)
  description: str = ""


def _load() -> None:
  for module in _MODULES:
    importlib.import_module(f"jaxrobust.models.{module}")


MODELS: Registry[ModelSpec] = Registry("model", _load)


def make_model(name: str, num_classes: int = 10, **options: Any) -> nn.Module:
  """The linen module `name`.

  >>> make_model("resnet20", num_classes=10).depth
  20
  """
  return MODELS[name].build(num_classes=num_classes, **options)


def list_models(pattern: str = "*") -> list[str]:
  """The registered names that match a shell pattern.

  >>> "resnet20" in list_models("resnet*")
  True
  """
  return MODELS.matching(pattern)
