"""Writes checkpoints of many forms with random weights, and what PyTorch says of a few images, for `test_checkpoints`.

  python tests/golden/make_checkpoints.py FOLDER [NAME…]
  JAXROBUST_CHECKPOINTS=FOLDER JAXROBUST_SLOW=1 bash launch/test.sh -k checkpoints

Needs torch, timm, torchvision and, for its architectures, the files of robustbench (the package is not imported:
`pip install --no-deps robustbench`). Every row is a file as people have them: which network, wrapped how, under which
name of ours it is converted, and whether that is to work; each gets logits of two images beside it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import pathlib
import sys
from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch


class Row(NamedTuple):
  """A file: the network, our name for it, its wrapping, and the words of the refusal where there is to be one."""

  source: str
  arch: str
  wrap: str = "plain"
  options: Mapping[str, Any] = MappingProxyType({})
  size: int = 224
  arguments: tuple[str, ...] = ()
  refused: str = ""


ROWS = {
  "timm-convnext_tiny": Row("timm:convnext_tiny", "convnext_tiny"),
  "timm-vit_small-37": Row("timm:vit_small_patch16_224", "vit_small_patch16_224", options={"num_classes": 37}),
  "timm-swin_tiny-10": Row(
    "timm:swin_tiny_patch4_window7_224", "swin_tiny_patch4_window7_224", "state_dict", {"num_classes": 10}
  ),
  "timm-efficientnet_b0-ema": Row("timm:efficientnet_b0", "efficientnet_b0", "ema", {"num_classes": 100}),
  "timm-mobilenetv3_large": Row("timm:mobilenetv3_large_100", "mobilenetv3_large_100", options={"num_classes": 5}),
  "timm-mobilenetv3_small": Row("timm:mobilenetv3_small_100", "mobilenetv3_small_100"),
  "timm-xcit_small": Row("timm:xcit_small_12_p16_224", "xcit_small_12_p16_224", options={"num_classes": 10}),
  "timm-resnet18-half": Row("timm:resnet18", "resnet18", "half"),
  "timm-resnet18-1": Row("timm:resnet18", "resnet18", options={"num_classes": 1}, refused="at least 2 classes"),
  "timm-resnet18-headless": Row("timm:resnet18", "resnet18", options={"num_classes": 0}, refused="has no head"),
  "timm-resnet18-gray": Row("timm:resnet18", "resnet18", options={"in_chans": 1, "num_classes": 10}),
  "timm-resnet50d": Row("timm:resnet50d", "resnet50d"),
  "timm-convnextv2_atto": Row("timm:convnextv2_atto", "convnextv2_atto"),
  "timm-convnextv2_tiny": Row("timm:convnextv2_tiny", "convnextv2_tiny", options={"num_classes": 20}),
  "timm-deit3_small": Row("timm:deit3_small_patch16_224", "deit3_small_patch16_224"),
  "timm-deit_tiny_distilled": Row("timm:deit_tiny_distilled_patch16_224", "deit_tiny_distilled_patch16_224"),
  "timm-deit_tiny_distilled-as-plain": Row(
    "timm:deit_tiny_distilled_patch16_224", "deit_tiny_patch16_224", refused="deit_…_distilled_patch16_224"
  ),
  "timm-vit_small-384": Row("timm:vit_small_patch16_384", "vit_small_patch16_224", arguments=("--size=384",), size=384),
  "timm-vit_small-384-resized": Row("timm:vit_small_patch16_384", "vit_small_patch16_224", "resized"),
  "timm-regnetx_004": Row("timm:regnetx_004", "regnetx_004"),
  "timm-mixer_b16": Row("timm:mixer_b16_224", "mixer_b16_224"),
  "torchvision-resnet50-module": Row("torchvision:resnet50", "resnet50", "module"),
  "torchvision-densenet121": Row("torchvision:densenet121", "densenet121"),
  "torchvision-efficientnet_b0": Row("torchvision:efficientnet_b0", "efficientnet_b0"),
  "torchvision-mobilenet_v2": Row("torchvision:mobilenet_v2", "mobilenetv2_100"),
  "torchvision-mobilenet_v3_large": Row("torchvision:mobilenet_v3_large", "mobilenet_v3_large"),
  "torchvision-mobilenet_v3_small": Row(
    "torchvision:mobilenet_v3_small", "mobilenet_v3_small", options={"num_classes": 7}
  ),
  "torchvision-convnext_tiny": Row("torchvision:convnext_tiny", "convnext_tiny"),
  "torchvision-vit_b_16": Row("torchvision:vit_b_16", "vit_b_16", options={"num_classes": 12}),
  "torchvision-swin_t": Row("torchvision:swin_t", "swin_t"),
  "torchvision-regnet_x_400mf": Row("torchvision:regnet_x_400mf", "regnet_x_400mf"),
  "torchvision-regnet_x_400mf-as-timm": Row("torchvision:regnet_x_400mf", "regnetx_004", refused="regnet_x_400mf"),
  "torchvision-shufflenet-compiled": Row("torchvision:shufflenet_v2_x1_0", "shufflenet_v2_x1_0", "compiled"),
  "torchvision-inception_v3": Row("torchvision:inception_v3", "inception_v3", size=299),
  "torchvision-googlenet-lightning": Row("torchvision:googlenet", "googlenet", "lightning"),
  "torchvision-vgg11_bn": Row("torchvision:vgg11_bn", "vgg11_bn"),
  "robustbench-wrn_28_10-module": Row("robustbench:wide_resnet.WideResNet", "wrn-28-10", "module", size=32),
  "robustbench-wrn_28_4-normalize": Row(
    "robustbench:wide_resnet.WideResNet", "wrn-28-4", "normalize", {"widen_factor": 4}, 32
  ),
  "robustbench-wrn_28_4-mu-sigma": Row("robustbench:wide_resnet.WideResNet", "wrn-28-4", "mu", {"widen_factor": 4}, 32),
  "robustbench-wrn_28_4-as-wider": Row(
    "robustbench:wide_resnet.WideResNet",
    "wrn-28-10",
    options={"widen_factor": 4},
    size=32,
    refused="list models 'wrn-*'",
  ),
  "robustbench-dm_wrn_28_4": Row(
    "robustbench:dm_wide_resnet.DMWideResNet",
    "dm-wrn-28-4",
    "state_dict",
    {"width": 4, "activation_fn": "Swish", "mean": (0.0,) * 3, "std": (1.0,) * 3},
    32,
  ),
  "robustbench-resnet18-net": Row(
    "robustbench:resnet.ResNet", "cifar-resnet18", "net", {"block": "BasicBlock", "num_blocks": (2, 2, 2, 2)}, 32
  ),
  "robustbench-preactresnet18": Row(
    "robustbench:resnet.PreActResNet",
    "preactresnet18",
    "net",
    {"block": "PreActBlock", "num_blocks": (2, 2, 2, 2), "out_shortcut": True},  # As in pytorch-cifar.
    32,
  ),
}


class Normalize(torch.nn.Module):
  """Subtracts a mean and divides by a deviation that are stored under two names."""

  def __init__(self, names: tuple[str, str]):
    super().__init__()
    self.names = names
    self.register_buffer(names[0], torch.tensor([0.5, 0.4, 0.3]).view(3, 1, 1))
    self.register_buffer(names[1], torch.tensor([0.2, 0.3, 0.25]).view(3, 1, 1))

  def forward(self, images: torch.Tensor) -> torch.Tensor:
    mean, deviation = (getattr(self, name) for name in self.names)
    return (images - mean) / deviation


# What is in front of a network, as robustbench and TRADES' successors store it.
NORMALIZATIONS = {
  "normalize": lambda network: torch.nn.Sequential(OrderedDict(normalize=Normalize(("mean", "std")), model=network)),
  "mu": lambda network: torch.nn.Sequential(Normalize(("mu", "sigma")), network),
}


def robustbench_file(name: str) -> ModuleType:
  """Returns a file of robustbench's architectures, without the imports of the whole package."""
  package = importlib.util.find_spec("robustbench")
  path = pathlib.Path(package.origin).parent / "model_zoo" / "architectures" / f"{name}.py"
  spec = importlib.util.spec_from_file_location(name, path)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


def build(row: Row) -> torch.nn.Module:
  """Returns the network with random weights and batch statistics, in evaluation mode."""
  library, _, name = row.source.partition(":")
  if library == "timm":
    import timm

    network = timm.create_model(name, pretrained=False, **row.options)
  elif library == "robustbench":
    file, _, name = name.partition(".")
    module = robustbench_file(file)
    found = {key: getattr(module, value) if isinstance(value, str) else value for key, value in row.options.items()}
    network = getattr(module, name)(**found)
  else:
    import torchvision

    more = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    network = getattr(torchvision.models, name)(weights=None, **row.options, **more)
  generator = torch.Generator().manual_seed(0)
  for key, tensor in network.state_dict().items():
    if key.endswith("running_var"):
      tensor.copy_(0.5 + torch.rand(tensor.shape, generator=generator))
    elif key.endswith("running_mean") or (key.endswith("bias") and tensor.ndim == 1):
      tensor.copy_(0.1 * torch.randn(tensor.shape, generator=generator))
    elif key.endswith("weight") and not tensor.any():  # Heads that start at zero would hide all before them.
      tensor.copy_(0.05 * torch.randn(tensor.shape, generator=generator))
    elif key.endswith(("gamma", "layer_scale", "grn.weight")):
      tensor.copy_(0.2 + 0.1 * torch.randn(tensor.shape, generator=generator))
  return NORMALIZATIONS.get(row.wrap, lambda network: network)(network).eval()


def wrapped(state: dict[str, torch.Tensor], wrap: str) -> Any:
  """Returns what a training script would have saved."""
  prefixed = lambda prefix: {f"{prefix}{key}": value for key, value in state.items()}
  noise = {key: value + 1 if value.is_floating_point() else value for key, value in state.items()}
  if wrap in ("plain", "resized", *NORMALIZATIONS):
    return state
  return {
    "net": {"net": prefixed("module."), "acc": 93.0, "epoch": 7},
    "half": {key: value.half() if value.is_floating_point() else value for key, value in state.items()},
    "state_dict": {"epoch": 3, "state_dict": state},
    "ema": {"arch": "b0", "args": argparse.Namespace(lr=0.1), "state_dict": noise, "state_dict_ema": state},
    "module": prefixed("module."),
    "compiled": {"model_state_dict": prefixed("_orig_mod.")},
    "lightning": {"pytorch-lightning_version": "2.0", "state_dict": prefixed("model.")},
  }[wrap]


def write(folder: pathlib.Path, name: str, row: Row) -> None:
  network = build(row)
  state = network.state_dict()
  if row.wrap == "half":
    network.load_state_dict(wrapped(state, "half"))
  torch.save(wrapped(network.state_dict(), row.wrap), folder / f"{name}.pth")
  if row.wrap == "resized":
    import timm

    network = timm.create_model(row.arch, pretrained=False, **row.options)
    resize = timm.layers.resample_abs_pos_embed
    state["pos_embed"] = resize(state["pos_embed"], (14, 14), num_prefix_tokens=1)
    network.load_state_dict(state)
    network.eval()
  images = torch.rand(2, row.options.get("in_chans", 3), row.size, row.size, generator=torch.Generator().manual_seed(1))
  if not row.refused:
    with torch.no_grad():
      np.savez_compressed(folder / f"{name}.npz", images=images, logits=network.double()(images.double()))
  about = {"arch": row.arch, "arguments": row.arguments, "refused": row.refused}
  about["normalized"] = row.wrap in NORMALIZATIONS
  (folder / f"{name}.json").write_text(json.dumps(about))
  print(name, flush=True)


if __name__ == "__main__":
  folder = pathlib.Path(sys.argv[1])
  folder.mkdir(parents=True, exist_ok=True)
  for name in sys.argv[2:] or ROWS:
    write(folder, name, ROWS[name])
