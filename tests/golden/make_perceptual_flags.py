"""Writes perceptual_flags.json: which of 64 CIFAR-10 images ResNet-32s get right after attacks of perceptual-advex.

Run where torch 2.13, perceptual-advex 0.2.6 and recoloradv 0.0.1 are; what the file has already is not run again:
  python -m tests.golden.make_perceptual_flags FOLDER_OF_REAL_DATA

Networks are ReColorAdv's, by the name of their file. Starts are `noise` below; "self" means the outputs of the three
stages. A flag is the prediction at the attack's last point, the authors' reading; images wrong from the start are
attacked too. Batches are of 16, in which PPGD's images share the ends of loops.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

from tests.golden.torch_perceptual import Injected, ResNetCIFAR, as_tensor, attacks

COUNT, BATCH = 64, 16
FILE = Path(__file__).with_name("perceptual_flags.json")
NETWORKS = ("delta", "stadv", "recoloradv_delta", "recoloradv")
RUNS = (
  ("stadv", 0.01),
  ("recolor", 0.06),
  ("lpa", 0.5),
  ("ppgd", 0.1),
  ("stadv", 0.05),
  ("lpa", 0.2),
  ("ppgd", 0.5),
  ("stadv", 0.005),
  ("recolor", 0.02),
)


def noise(count: int = COUNT) -> np.ndarray:
  """The start of perceptual attacks, (count, 32, 32, 3)."""
  return np.random.default_rng(0).normal(0, 0.01, (count, 32, 32, 3)).astype(np.float32)


def make(name: str, network: ResNetCIFAR, bound: float) -> torch.nn.Module:
  if name == "stadv":
    return attacks.StAdvAttack(network, bound=bound, num_iterations=100)
  if name == "recolor":
    return attacks.ReColorAdvAttack(network, bound=bound, num_iterations=100)
  kind = attacks.LagrangePerceptualAttack if name == "lpa" else attacks.PerceptualPGDAttack
  return kind(network, bound=bound, num_iterations=40, lpips_model="self")


def right_after(
  attack: str, bound: float, network: ResNetCIFAR, images: torch.Tensor, labels: torch.Tensor, at: int
) -> str:
  """Attacks the batch that begins at `at`; returns a 1 for each image that is right at the last point."""
  rows = slice(at, at + BATCH)
  with Injected(noise()[rows]):
    found = make(attack, network, bound)(images[rows].clone(), labels[rows])
  right = network(found.detach()).argmax(1) == labels[rows]
  return "".join(str(int(flag)) for flag in right)


def main(root: Path) -> None:
  known = json.loads(FILE.read_text()) if FILE.exists() else {}
  data = np.load(root / "cifar10_test.npz")
  images = as_tensor(data["images"][:COUNT].astype(np.float32) / 255)
  labels = torch.tensor(data["labels"][:COUNT].astype(np.int64))
  for attack, bound in RUNS:
    for name in NETWORKS:
      case = f"{name} {attack}@{bound}"
      if len(known.get(case, "")) >= COUNT:
        continue
      file = root / "weights" / "recoloradv" / f"{name}.resnet32.pt"
      state = torch.load(file, map_location="cpu", weights_only=False)
      network, began = ResNetCIFAR(state.get("state_dict", state)), time.process_time()
      for at in range(len(known.get(case, "")), COUNT, BATCH):
        known[case] = known.get(case, "") + right_after(attack, bound, network, images, labels, at)
        FILE.write_text(json.dumps(known, indent=1) + "\n")
      print(case, known[case].count("1"), round(time.process_time() - began), flush=True)


if __name__ == "__main__":
  main(Path(sys.argv[1]))
