"""Writes perceptual_vgg16.npz: phi and distances of perceptual-advex's VGG16, a sixteenth as wide, random weights.

Run where torch 2.13 and perceptual-advex 0.2.6 are: python -m tests.golden.make_perceptual_vgg16
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from tests.golden import perceptual_networks as networks
from tests.golden.torch_perceptual import as_tensor, flatten


@torch.no_grad()
def main() -> None:
  from perceptual_advex.models import VGG16FeatureModel
  from torchvision.models import vgg

  widths = iter(networks.VGG16_WIDTHS)
  chain = [next(widths) if part != "M" else part for part in vgg.cfgs["D"]]
  model = vgg.VGG(vgg.make_layers(chain))
  convolutions = [part for part in model.features if isinstance(part, torch.nn.Conv2d)]
  for part, weights in zip(convolutions, networks.vgg16_layers(), strict=True):
    part.weight.copy_(torch.tensor(weights["kernel"].transpose(3, 2, 0, 1).copy()))
    part.bias.copy_(torch.tensor(weights["bias"]))
  network, images = VGG16FeatureModel(model), as_tensor(networks.pictures(4, side=32))
  seen = network.features(images)
  units = [flatten((layer,)).reshape(layer.shape).permute(0, 2, 3, 1).reshape(len(images), -1) for layer in seen]
  distances = (flatten(seen) - flatten(network.features(images.flip(0)))).norm(dim=1)
  file = Path(__file__).with_name("perceptual_vgg16.npz")
  np.savez_compressed(file, features=torch.cat(units, dim=1)[:1].numpy(), distances=distances.numpy())


if __name__ == "__main__":
  main()
