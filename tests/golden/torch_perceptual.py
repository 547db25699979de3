"""perceptual-advex 0.2.6 made to run on today's torch and without torchvision's compiled operators."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

library = torch.library.Library("torchvision", "DEF")
library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
stub = types.ModuleType("torchvision.models.utils")
stub.load_state_dict_from_url = None  # type: ignore[attr-defined]
sys.modules["torchvision.models.utils"] = stub

from perceptual_advex import attacks, distances, perceptual_attacks  # noqa: E402
from perceptual_advex.models import FeatureModel  # noqa: E402


def flatten(features: tuple, eps: float = 1e-10) -> torch.Tensor:
  """Their function, with `reshape` where `view` fails on today's memory formats."""
  parts = []
  for layer in features:
    norm = torch.sqrt(torch.sum(layer**2, dim=1, keepdim=True)) + eps
    parts.append((layer / (norm * np.sqrt(layer.shape[2] * layer.shape[3]))).reshape(layer.shape[0], -1))
  return torch.cat(parts, dim=1)


distances.normalize_flatten_features = flatten
perceptual_attacks.normalize_flatten_features = flatten


def as_tensor(images: np.ndarray) -> torch.Tensor:
  """NHWC arrays as contiguous NCHW tensors."""
  return torch.tensor(np.ascontiguousarray(np.asarray(images, np.float32).transpose(0, 3, 1, 2)))


def as_array(images: torch.Tensor) -> np.ndarray:
  return images.detach().numpy().transpose(0, 2, 3, 1)


class Injected:
  """Context in which `Tensor.normal_` fills in one array: the noise of starts."""

  def __init__(self, noise: np.ndarray):
    self.noise = as_tensor(noise)

  def __enter__(self) -> None:
    self.plain = torch.Tensor.normal_
    torch.Tensor.normal_ = lambda tensor, *_: tensor.copy_(self.noise)  # type: ignore[assignment]

  def __exit__(self, *_: Any) -> None:
    torch.Tensor.normal_ = self.plain  # type: ignore[method-assign]


class Convolutions(FeatureModel):
  """The chain of convolutions of `jaxrobust.models.perceptual`, with a linear head on means if there is one."""

  def __init__(self, chain: list[tuple[int, int, int, bool]], weights: list[dict[str, np.ndarray]], head: Any = None):
    super().__init__()
    self.chain, self.head = chain, None if head is None else torch.tensor(head)
    self.kernels = [torch.tensor(np.asarray(part["kernel"]).transpose(3, 2, 0, 1).copy()) for part in weights]
    self.biases = [torch.tensor(np.asarray(part["bias"])) for part in weights]
    self.mean = torch.tensor([0.485, 0.456, 0.406])[None, :, None, None]
    self.std = torch.tensor([0.229, 0.224, 0.225])[None, :, None, None]

  def features(self, x: torch.Tensor) -> tuple:
    x, seen = (x - self.mean) / self.std, []
    for (stride, padding, pool, shown), kernel, bias in zip(self.chain, self.kernels, self.biases, strict=True):
      x = F.max_pool2d(x, pool, 2) if pool else x
      x = F.relu(F.conv2d(x, kernel, bias, stride, padding))
      seen += [x] if shown else []
    return tuple(seen)

  def classifier(self, last_layer: torch.Tensor) -> torch.Tensor:
    return last_layer.mean(dim=(2, 3)) @ self.head


class ResNetCIFAR(FeatureModel):
  """He et al.'s CIFAR ResNet with option A, from a state dict; its features are the outputs of its three stages."""

  def __init__(self, state: dict[str, torch.Tensor], depth: int = 32):
    super().__init__()
    self.state, self.blocks = {k.removeprefix("module."): v for k, v in state.items()}, (depth - 2) // 6
    self.mean = torch.tensor([0.485, 0.456, 0.406])[None, :, None, None]
    self.std = torch.tensor([0.229, 0.224, 0.225])[None, :, None, None]

  def _norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
    parts = (self.state[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
    return F.batch_norm(x, *parts)

  def features(self, x: torch.Tensor) -> tuple:
    x = F.conv2d((x - self.mean) / self.std, self.state["conv1.weight"], padding=1)
    x, seen = F.relu(self._norm(x, "bn1")), []
    for stage in (1, 2, 3):
      for block in range(self.blocks):
        name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
        y = F.conv2d(x, self.state[f"{name}.conv1.weight"], stride=stride, padding=1)
        y = F.conv2d(F.relu(self._norm(y, f"{name}.bn1")), self.state[f"{name}.conv2.weight"], padding=1)
        extra = y.shape[1] - x.shape[1]
        x = F.pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, extra // 2, extra - extra // 2)) if extra else x
        x = F.relu(self._norm(y, f"{name}.bn2") + x)
      seen.append(x)
    return tuple(seen)

  def classifier(self, last_layer: torch.Tensor) -> torch.Tensor:
    return last_layer.mean(dim=(2, 3)) @ self.state["linear.weight"].T + self.state["linear.bias"]


__all__ = ["Convolutions", "Injected", "ResNetCIFAR", "as_array", "as_tensor", "attacks", "flatten", "nn"]
