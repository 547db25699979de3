"""Records what other implementations of score-based attacks do; writes score_peers.json beside this file.

  python make_score_peers.py DATA [PART …]

DATA is a folder with cifar10_test.npz and weights; needs torch, torchattacks, foolbox and ART. The parts, all by
default: `spsa` and `simba`, success rates of torchattacks' SPSA and of ART's SimBA on the CNN-A network over some
seeds, among the images that it gets right; `zoo`, the distances that ART's ZOO reaches there after some numbers of
queries, each image attacked alone; `gradient`, one gradient of torchattacks' SPSA on a toy score, with the signs drawn.
"""

from __future__ import annotations

import json
import pathlib
import sys

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "jaxrobust" / "bench"))
import peer_worker
from make_decision_peers import closest

NETWORK, IMAGES, SEEDS = "cnn_a_adv4", 192, (0, 1, 2)
SPSA = {"eps": 8 / 255, "delta": 0.001, "lr": 1 / 255, "nb_iter": 10, "nb_sample": 50, "max_batch_size": 50}
SIMBA = {"attack": "px", "max_iter": 200, "epsilon": 0.2, "order": "random", "freq_dim": 32}
ZOO = {"initial_const": 0.5, "learning_rate": 0.01, "nb_parallel": 128, "use_resize": False, "use_importance": False}
COUNTS = (1000, 2000)


def spsa(model, x, y, seed):
  peer_worker.torchvision()
  import torchattacks

  torch.manual_seed(seed)
  return torchattacks.SPSA(model, **SPSA)(x, y)


def art_classifier(network):
  from art.estimators.classification import PyTorchClassifier

  loss = torch.nn.CrossEntropyLoss()
  return PyTorchClassifier(network, loss, (3, 32, 32), 10, clip_values=(0.0, 1.0), device_type="cpu")


def simba(model, x, y, seed):
  from art.attacks.evasion import SimBA

  np.random.seed(seed)
  attack = SimBA(art_classifier(torch.nn.Sequential(model, torch.nn.Softmax(1))), **SIMBA, verbose=False)
  return torch.from_numpy(attack.generate(x.numpy().copy(), np.eye(10, dtype=np.float32)[y.numpy()]))


def zoo(asked, image, label):
  """With the constant and all coordinates at once of the authors; as many iterations as there are queries for."""
  from art.attacks.evasion import ZooAttack

  attack = ZooAttack(art_classifier(asked), **ZOO, max_iter=10**6, abort_early=False, verbose=False)
  attack.generate(image[None].numpy(), np.array([label]))


def gradient() -> dict:
  """One gradient of SPSA, with the signs behind it."""
  peer_worker.torchvision()
  import torchattacks

  draw = np.random.RandomState(0)
  weights = np.round(draw.randn(3, 12), 3)
  image = np.round(draw.rand(1, 3, 2, 2), 3)
  matrix = torch.tensor(weights, dtype=torch.float32)

  class Toy(torch.nn.Module):
    def __init__(self):
      super().__init__()
      self.spare = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x):
      return torch.sin(x.flatten(1) @ matrix.T)

  attack = torchattacks.SPSA(Toy())
  torch.manual_seed(1)
  found = attack.spsa_grad(torch.tensor(image, dtype=torch.float32), torch.tensor([0]), 0.01, 16, 16)
  torch.manual_seed(1)
  signs = torch.empty(16, 1, 3, 2, 2).bernoulli_().mul_(2.0).sub_(1.0)
  return {
    "weights": weights.tolist(),
    "image": image[0].tolist(),
    "signs": signs[:, 0].tolist(),
    "delta": 0.01,
    # Theirs descends on the negative margin.
    "gradient": np.round(-found[0].double().numpy(), 6).tolist(),
  }


def success(name: str, attack, options: dict, model, x, y) -> dict:
  """Success rates and median distances over seeds."""
  rates, distances = [], []
  for seed in SEEDS:
    moved = attack(model, x, y, seed)
    with torch.no_grad():
      fooled = model(moved).argmax(1) != y
    rates.append(float(fooled.float().mean()))
    distances.append(float((moved - x).flatten(1).norm(dim=1)[fooled].median()))
    print(name, seed, rates[-1], distances[-1], flush=True)
  return {"options": options, "success": rates, "median_l2": distances}


def main() -> None:
  if len(sys.argv) < 2:
    sys.exit(__doc__)
  torch.set_num_threads(1)
  model = peer_worker.load(NETWORK, sys.argv[1])
  with np.load(f"{sys.argv[1]}/cifar10_test.npz") as data:
    x = torch.from_numpy(data["images"][:IMAGES].astype(np.float32) / 255).permute(0, 3, 1, 2).contiguous()
    y = torch.from_numpy(data["labels"][:IMAGES].astype(np.int64))
  with torch.no_grad():
    right = model(x).argmax(1) == y
  path = pathlib.Path(__file__).with_name("score_peers.json")
  found = json.loads(path.read_text()) if path.exists() else {}
  versions = {name: peer_worker.version(name) for name in ("torch", "torchattacks", "adversarial-robustness-toolbox")}
  found |= {"network": NETWORK, "images": IMAGES, "right": int(right.sum()), "versions": versions}
  wanted = sys.argv[2:] or ["spsa", "simba", "zoo", "gradient"]
  for name, attack, options in (("spsa", spsa, SPSA), ("simba", simba, SIMBA)):
    if name in wanted:
      found[name] = success(name, attack, options, model, x[right], y[right])
  if "zoo" in wanted:
    each = enumerate(zip(x[right], y[right].tolist(), strict=True))
    rows = [closest(zoo, model, image, label, COUNTS, number) for number, (image, label) in each]
    found["zoo"] = {"options": ZOO, "queries": COUNTS, "distances": rows}
  if "gradient" in wanted:
    found["gradient"] = gradient()
  path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
  main()
