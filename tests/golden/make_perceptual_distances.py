"""Writes perceptual_distances.json: LPIPS of 24 pairs of CIFAR-10 images by PyPI's lpips 0.1.4 and by perceptual-advex.

Run where they and torch 2.13 are: python -m tests.golden.make_perceptual_distances FOLDER_OF_REAL_DATA
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch

from tests.golden.torch_perceptual import Convolutions, ResNetCIFAR, as_tensor, flatten

PAIRS = 24
ALEXNET = [(4, 2, 0, True), (1, 2, 3, True), (1, 1, 3, True), (1, 1, 0, True), (1, 1, 0, True)]


@torch.no_grad()
def main(root: Path) -> None:
  import lpips

  stored = np.load(root / "weights" / "lpips_alexnet.npz")
  layers = [{part: stored[f"AlexNet_0/Conv_{i}/{part}"] for part in ("kernel", "bias")} for i in range(5)]
  alexnet = Convolutions(ALEXNET, layers)
  learned = lpips.LPIPS(net="alex", pnet_rand=True, verbose=False)
  names = sorted((name for name in learned.net.state_dict() if "weight" in name), key=lambda n: int(n.split(".")[1]))
  state = dict(zip(names, alexnet.kernels, strict=True))
  state |= {name.replace("weight", "bias"): bias for name, bias in zip(names, alexnet.biases, strict=True)}
  learned.net.load_state_dict(state)
  images = np.load(root / "cifar10_test.npz")["images"][: 2 * PAIRS].astype(np.float32) / 255
  one, two = as_tensor(images[:PAIRS]), as_tensor(images[PAIRS:])
  weights = torch.load(root / "weights" / "recoloradv" / "delta.resnet32.pt", map_location="cpu", weights_only=False)
  found = {"learned": learned(one, two, normalize=True).reshape(-1).tolist()}
  for name, network in (("alexnet", alexnet), ("self", ResNetCIFAR(weights.get("state_dict", weights)))):
    found[name] = (flatten(network.features(one)) - flatten(network.features(two))).norm(dim=1).tolist()
  Path(__file__).with_name("perceptual_distances.json").write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
  main(Path(sys.argv[1]))
