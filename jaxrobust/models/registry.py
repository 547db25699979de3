"""Models by name, with the metadata that travels with the name.

Adding a family is one file and one line in `_MODULES`; sizes are rows of a table in that file. Names are those of
timm and torchvision where they have the network; networks with a stem for 32-pixel images are called `cifar-…`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax.extend import core

from jaxrobust.core.registry import Registry
from jaxrobust.models.layers.head import Hypersphere

_MODULES = (
  "cifar_small",
  "cnn",
  "convmixer",
  "convnext",
  "densenet",
  "dla",
  "efficientnet",
  "ensembles",
  "googlenet",
  "inception",
  "mixer",
  "mobilenetv3",
  "nas_bench_201",
  "regnet",
  "repvgg",
  "resnet",
  "resnet_cifar",
  "resnet_denoise",
  "shufflenet",
  "swin",
  "t2t_vit",
  "vgg",
  "vit",
  "vitae",
  "wide_resnet",
  "xcit",
)

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
INCEPTION_MEAN, INCEPTION_STD = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)


@dataclass(frozen=True)
class ModelSpec:
  """The recipe of a model: how to build it and what to feed it.

  Attributes:
    build: `build(num_classes=…, **options)` returns a linen module.
    input_size: (H, W, C) the architecture was made for.
    mean, std: the normalization its published weights use.
    description: one line for `jaxrobust list models`.
    num_classes: classes of its published weights, the default of `make_model`.
    crop_fraction: side of the central crop over the side of the resized image, in its published evaluation.
    interpolation: how the image was resized there.
    reference: the network it equals weight by weight, as "timm:NAME" or "torchvision:NAME"; empty where neither has it.
  """

  build: Callable[..., nn.Module]
  input_size: tuple[int, int, int]
  mean: tuple[float, ...] = (0.0, 0.0, 0.0)
  std: tuple[float, ...] = (1.0, 1.0, 1.0)
  description: str = ""
  num_classes: int = 10
  crop_fraction: float = 1.0
  interpolation: str = "bilinear"
  reference: str = ""


def imagenet_spec(
  build: Callable[..., nn.Module],
  description: str,
  reference: str = "",
  *,
  size: int = 224,
  mean: tuple[float, ...] = IMAGENET_MEAN,
  std: tuple[float, ...] = IMAGENET_STD,
  crop_fraction: float = 0.875,
  interpolation: str = "bilinear",
) -> ModelSpec:
  """Describes a network for the 1,000 classes of ImageNet."""
  return ModelSpec(build, (size, size, 3), mean, std, description, 1000, crop_fraction, interpolation, reference)


def cifar_spec(
  build: Callable[..., nn.Module],
  description: str,
  *,
  mean: tuple[float, ...] = CIFAR_MEAN,
  std: tuple[float, ...] = CIFAR_STD,
) -> ModelSpec:
  """Describes a network for the 10 classes and 32 pixels of CIFAR-10."""
  return ModelSpec(build, (32, 32, 3), mean, std, description)


def _load() -> None:
  for module in _MODULES:
    importlib.import_module(f"jaxrobust.models.families.{module}")


MODELS: Registry[ModelSpec] = Registry("model", _load)


def make_model(name: str, num_classes: int | None = None, **options: Any) -> nn.Module:
  """Builds the linen module `name`, with as many classes as its published weights have unless told otherwise.

  Any network takes the option `hypersphere`, the scale of `head.Hypersphere`.

  >>> make_model("resnet20", num_classes=10).depth
  20
  """
  spec, scale = MODELS[name], options.pop("hypersphere", 0.0)
  module = spec.build(num_classes=spec.num_classes if num_classes is None else num_classes, **options)
  return Hypersphere(module, scale) if scale else module


def list_models(pattern: str = "*") -> list[str]:
  """Returns the registered names that match a shell pattern.

  >>> "resnet20" in list_models("resnet*")
  True
  """
  return MODELS.matching(pattern)


def abstract_variables(module: nn.Module, input_size: tuple[int, int, int]) -> Any:
  """Returns shapes and types of a module's variables, without computing anything."""
  image = jax.ShapeDtypeStruct((1, *input_size), jnp.float32)
  return jax.eval_shape(lambda x: module.init(_keys(), x), image)


def abstract_model(name: str, num_classes: int | None = None) -> tuple[Any, Any]:
  """Returns shapes of the logits of one image and of the variables, for the model `name` at its own input size."""
  return _abstract_model(name, MODELS[name].num_classes if num_classes is None else num_classes)


@functools.cache
def _abstract_model(name: str, num_classes: int) -> tuple[Any, Any]:
  module, image = make_model(name, num_classes), jax.ShapeDtypeStruct((1, *MODELS[name].input_size), jnp.float32)
  return jax.eval_shape(lambda x: module.init_with_output(_keys(), x), image)


def _keys() -> dict[str, Any]:
  """Returns one key for weights, one for networks that draw noise even in evaluation."""
  return {"params": jax.random.key(0), "noise": jax.random.key(1)}


def count_params(name: str, num_classes: int | None = None) -> int:
  """Returns trained numbers of a model; batch statistics are not among them.

  >>> count_params("resnet20")
  269722
  """
  variables = abstract_model(name, num_classes)[1]
  return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(variables["params"]))


def count_flops(name: str, num_classes: int | None = None) -> int:
  """Returns multiply-adds of convolutions and matrix products for one image, which papers call FLOPs.

  >>> round(count_flops("resnet20") / 1e6)
  41
  """
  module, image = make_model(name, num_classes), jax.ShapeDtypeStruct((1, *MODELS[name].input_size), jnp.float32)
  variables = abstract_model(name, num_classes)[1]
  return _multiply_adds(jax.make_jaxpr(functools.partial(module.apply, rngs=_keys()))(variables, image).jaxpr)


def _multiply_adds(jaxpr: Any) -> int:
  total = 0
  for equation in jaxpr.eqns:
    out, rhs = equation.outvars[0].aval, equation.invars[-1].aval
    if equation.primitive.name == "conv2d":
      total += int(np.prod(out.shape)) * int(np.prod(rhs.shape[:3]))
    elif equation.primitive.name == "conv_general_dilated":
      kernel = equation.params["dimension_numbers"].rhs_spec  # (O, I, spatial…)
      total += int(np.prod(out.shape)) * int(np.prod(rhs.shape)) // rhs.shape[kernel[0]]
    elif equation.primitive.name == "dot_general":
      (_, contracted), _ = equation.params["dimension_numbers"]
      total += int(np.prod(out.shape)) * int(np.prod([rhs.shape[axis] for axis in contracted]))
    else:
      total += sum(_multiply_adds(inner) for inner in core.jaxprs_in_params(equation.params))
  return total
