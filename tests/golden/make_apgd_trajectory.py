"""Records what the authors' Auto-PGD does on a toy network; writes apgd_trajectory.json beside this file.

  python make_apgd_trajectory.py PATH_TO_AUTO_ATTACK        (a checkout of fra31/auto-attack; needs torch)

For each run: the starting points, and at every point looked at the loss, the step size over eps and, for
l1, the number of pixels a move may change. The run with several phases makes one move less in all but the
last phase than its nominal number of steps, as our attack counts the first look of a phase as a step; its
images are black, because x + y - y, by which the authors undo changes, is exactly x only there.
"""

from __future__ import annotations

import json
import pathlib
import sys

import numpy as np
import torch

STEPS = 40
# With 64 pixels the authors' float arithmetic rounds two thirds of any count as integers do.
EXAMPLES, SIDE, HIDDEN, CLASSES = 4, 8, 12, 5
RUNS = {
  "linf-ce": {"norm": "Linf", "loss": "ce", "eps": 0.1, "phases": 1, "black": False},
  "linf-dlr-t": {"norm": "Linf", "loss": "dlr-targeted", "eps": 0.1, "phases": 1, "black": False},
  "l2-ce": {"norm": "L2", "loss": "ce", "eps": 0.5, "phases": 1, "black": False},
  "l1-ce": {"norm": "L1", "loss": "ce", "eps": 2.5, "phases": 1, "black": False},
  "l1-ce-large": {"norm": "L1", "loss": "ce", "eps": 1.5, "phases": 3, "black": True},
}


def toy() -> dict[str, list]:
  """A smooth two-layer network and images; round numbers, so that the file is exact."""
  draw = np.random.RandomState(0)
  pixels = SIDE * SIDE
  first = np.round(draw.randn(HIDDEN, pixels) * 6 / np.sqrt(pixels), 3)
  second = np.round(draw.randn(CLASSES, HIDDEN) * 2 / np.sqrt(HIDDEN), 3)
  bias = np.round(draw.randn(HIDDEN), 3)
  images = np.round(draw.rand(EXAMPLES, pixels), 3)
  logits = np.sin(images @ first.T + bias) @ second.T
  order = np.argsort(-logits, 1)
  return {
    "first": first.tolist(),
    "bias": bias.tolist(),
    "second": second.tolist(),
    "images": images.tolist(),
    "labels": order[:, 0].tolist(),
    "targets": order[:, 2].tolist(),
  }


class Recorder:
  """The network; at each evaluation it also reads the attack's books from the frame that called it."""

  def __init__(self, data: dict[str, list]):
    self.first, self.bias, self.second = (torch.tensor(data[name]) for name in ("first", "bias", "second"))
    self.points: list[torch.Tensor] = []
    self.step_sizes: list = []
    self.kept: list = []

  def __call__(self, images: torch.Tensor) -> torch.Tensor:
    books = sys._getframe(1).f_locals
    self.points.append(images.detach().flatten(1).clone())
    # Before its first move the attack has not yet set its books.
    self.step_sizes.append((books["step_size"].flatten() / books["self"].eps).tolist() if "i" in books else None)
    pixels = SIDE * SIDE
    sparse = "i" in books and "topk" in books
    self.kept.append([pixels - int((1 - share) * pixels) for share in books["topk"]] if sparse else None)
    return self.logits(images.flatten(1))

  def logits(self, points: torch.Tensor) -> torch.Tensor:
    return torch.sin(points @ self.first.T + self.bias) @ self.second.T


def record(data: dict[str, list], run: dict, attack_class: type) -> dict:
  model = Recorder(data)
  images = torch.tensor(data["images"]).view(EXAMPLES, 1, SIDE, SIDE) * (not run["black"])
  labels = torch.tensor(data["labels"])
  attack = attack_class(model, n_iter=STEPS, norm=run["norm"], eps=run["eps"], seed=0, device="cpu")
  attack.loss, attack.y_target = run["loss"], torch.tensor(data["targets"])
  attack.init_hyperparam(images)
  torch.manual_seed(0)
  if run["phases"] == 1:
    attack.attack_single_run(images, labels)
  else:
    moves = [int(0.3 * STEPS) - 1, int(0.3 * STEPS) - 1, STEPS - 2 * int(0.3 * STEPS)]
    attack.decr_eps_pgd(images, labels, [3 * run["eps"], 2 * run["eps"], run["eps"]], moves)
  points = torch.stack(model.points)
  criterion = {
    "ce": lambda z: torch.nn.functional.cross_entropy(z, labels, reduction="none"),
    "dlr": lambda z: attack.dlr_loss(z, labels),
    "dlr-targeted": lambda z: attack.dlr_loss_targeted(z, labels),
  }[run["loss"]]
  losses = [criterion(model.logits(point)).tolist() for point in points]
  return {
    **run,
    "steps": STEPS,
    "start": [[float(str(value)) for value in row] for row in points[0].numpy()],
    "end": np.round(points[-1].double().numpy(), 6).tolist(),
    "losses": np.round(losses, 5).tolist(),
    "step_size": [None if row is None else np.round(row, 6).tolist() for row in model.step_sizes],
    "kept": model.kept,
  }


def main() -> None:
  if len(sys.argv) != 2:
    sys.exit(__doc__)
  sys.path.insert(0, sys.argv[1])
  from autoattack.autopgd_base import APGDAttack_targeted

  data = toy()
  runs = {name: record(data, run, APGDAttack_targeted) for name, run in RUNS.items()}
  text = json.dumps({"source": "fra31/auto-attack a392200", **data, "runs": runs})
  pathlib.Path(__file__).with_name("apgd_trajectory.json").write_text(text + "\n")


if __name__ == "__main__":
  main()
