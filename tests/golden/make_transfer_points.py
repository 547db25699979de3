"""Records where torchattacks' transfer attacks end on a toy network; writes transfer_points.json beside this file.

  python make_transfer_points.py        (needs torch and torchattacks)

One image at a time. Where an attack draws, its draws are replaced by the tables of `transfer_draws.py`, so that the
same ones can be given to ours. `decay` is set, because some of these attacks have none by default.
"""

from __future__ import annotations

import json
import pathlib

import numpy as np
import torch
from transfer_draws import PLACEMENTS, SIDE, STEPS, neighbor

# torchvision, which torchattacks imports, wants operators that are not needed here.
for name in ("nms", "qnms"):
  torch.library.Library("torchvision", "FRAGMENT").define(f"{name}(Tensor a, Tensor b, float c) -> Tensor")

import torchattacks  # noqa: E402

EXAMPLES, HIDDEN, CLASSES, EPS = 4, 12, 5, 0.06
COMMON = {"eps": EPS, "alpha": EPS / STEPS, "steps": STEPS, "decay": 1.0}
RUNS = {
  "mim": ("MIFGSM", {}),
  "ni-fgsm": ("NIFGSM", {}),
  "si-ni-fgsm": ("SINIFGSM", {"m": 4}),
  "dim": ("DIFGSM", {"diversity_prob": 1.0, "resize_rate": 0.5}),
  "dim-never": ("DIFGSM", {"diversity_prob": 0.0}),
  "tim": ("TIFGSM", {"diversity_prob": 0.0, "len_kernel": 15, "nsig": 3}),
  "tim-small": ("TIFGSM", {"diversity_prob": 1.0, "resize_rate": 0.5, "len_kernel": 3, "nsig": 2}),
  "vmi-fgsm": ("VMIFGSM", {"N": 3, "beta": 1.5}),
  "vni-fgsm": ("VNIFGSM", {"N": 3, "beta": 1.5}),
}


def toy() -> dict[str, list]:
  """A smooth two-layer network and images; round numbers, so that the file is exact."""
  draw = np.random.RandomState(0)
  pixels = 3 * SIDE * SIDE
  first = np.round(draw.randn(HIDDEN, pixels) * 4 / np.sqrt(pixels), 3)
  second = np.round(draw.randn(CLASSES, HIDDEN) * 2 / np.sqrt(HIDDEN), 3)
  bias = np.round(draw.randn(HIDDEN), 3)
  images = np.round(draw.rand(EXAMPLES, pixels), 3)
  order = np.argsort(-np.sin(images @ first.T + bias) @ second.T, 1)
  found = {"first": first, "bias": bias, "second": second, "images": images}
  found |= {"labels": order[:, 0], "targets": order[:, 2]}
  return {name: array.tolist() for name, array in found.items()}


class Network(torch.nn.Module):
  """The toy network."""

  def __init__(self, data: dict[str, list]):
    super().__init__()
    self.first, self.bias, self.second = (
      torch.nn.Parameter(torch.tensor(data[name])) for name in ("first", "bias", "second")
    )

  def forward(self, images: torch.Tensor) -> torch.Tensor:
    return torch.sin(images.flatten(1) @ self.first.T + self.bias) @ self.second.T


def replace_draws(count: int) -> None:
  """Makes torch draw what the tables say, from the first step on."""
  places = iter([value for place in PLACEMENTS for value in place])
  offsets = iter([neighbor(step, number) for step in range(STEPS) for number in range(count)])
  torch.randint = lambda **_: torch.tensor([next(places)], dtype=torch.int32)
  torch.Tensor.uniform_ = lambda self, low, high: self.copy_(high * torch.tensor(next(offsets)).reshape(self.shape))


def main() -> None:
  data = toy()
  network = Network(data).eval()
  images = torch.tensor(data["images"]).view(EXAMPLES, 3, SIDE, SIDE)
  runs: dict[str, dict] = {}
  for name, (attack_name, parameters) in RUNS.items():
    for goal in ("labels", "targets"):
      ends = []
      for image, label in zip(images, data[goal], strict=True):
        attack = getattr(torchattacks, attack_name)(network, **COMMON, **parameters)
        if goal == "targets":
          attack.set_mode_targeted_by_label(quiet=True)
        replace_draws(parameters.get("N", 0))
        ends.append(attack(image[None], torch.tensor([label])).flatten().double().numpy())
      runs[f"{name}/{goal}"] = np.round(ends, 6).tolist()
  text = json.dumps({"source": f"torchattacks {torchattacks.__version__}", "eps": EPS, **data, "runs": runs})
  pathlib.Path(__file__).with_name("transfer_points.json").write_text(text + "\n")


if __name__ == "__main__":
  main()
