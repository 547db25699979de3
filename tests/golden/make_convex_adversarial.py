"""Writes the bounds of `convex_adversarial` 0.4.4 (PyPI, with torch) on kw-base, the first 40 CIFAR-10 test images.

Run by hand, with $JAXROBUST_DATA: python tests/golden/make_convex_adversarial.py
"""

from __future__ import annotations

import json
import os
import pathlib

import numpy as np
import torch
from convex_adversarial import DualNetwork
from torch import nn


class Flatten(nn.Module):
  """By this name the library knows it."""

  def forward(self, x):  # type: ignore[no-untyped-def]
    return x.view(x.size(0), -1)


def main() -> None:
  root = pathlib.Path(os.environ["JAXROBUST_DATA"])
  weights, data = np.load(root / "weights" / "cifar10_kw_base.npz"), np.load(root / "cifar10_test.npz")
  images, labels = data["images"][:40].astype(np.float32) / 255, data["labels"][:40]
  convolutions = nn.Conv2d(3, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 4, 2, 1), nn.ReLU()
  network = nn.Sequential(*convolutions, Flatten(), nn.Linear(1024, 100), nn.ReLU(), nn.Linear(100, 10))
  network.load_state_dict({name: torch.tensor(array) for name, array in weights.items()})
  mean, std = np.array([0.485, 0.456, 0.406], np.float32), 0.225
  inputs = torch.tensor(((images - mean) / np.float32(std)).transpose(0, 3, 1, 2).copy()).contiguous()
  rows = []
  for eps in ("2/255", "0.5/255"):
    smallest = []
    for image, label in zip(inputs, labels, strict=True):
      dual = DualNetwork(network, image[None], float(eps.split("/")[0]) / 255 / std)
      # A lower bound of c · logits for each row c.
      bounds = dual((torch.eye(10)[int(label)] - torch.eye(10))[None])[0].detach().numpy()
      smallest.append(round(float(np.delete(bounds, label).min()), 6))
    rows.append({"eps": eps, "margins": smallest, "certified": int((np.array(smallest) > 0).sum())})
    print(eps, rows[-1]["certified"])
  target = pathlib.Path(__file__).parent / "convex_adversarial.json"
  target.write_text(json.dumps({"source": "convex_adversarial 0.4.4", "network": "kw-base", "rows": rows}) + "\n")


if __name__ == "__main__":
  main()
