"""perceptual-advex, timed on request; run by its own Python, which needs torch but not jaxrobust.

One JSON object per line on standard input, one per line back:
  {"file": "weights/….pt", "data": FOLDER, "n": 32, "attack": "stadv", "eps": 0.05}
  -> {"seconds": 1.2, "robust": 0.0, "peer": "perceptual-advex", "version": "…"} or {"missing": "why"}
"""

import json
import sys
import time
import types
from pathlib import Path

import numpy as np
import torch
from peer_worker import Block, torchvision, version
from torch import nn


def load(file):
  """Loads ReColorAdv's ResNet-32 with the outputs of its stages as features, as perceptual-advex wants them."""
  torchvision()
  utils = types.ModuleType("torchvision.models.utils")
  utils.load_state_dict_from_url = None
  sys.modules["torchvision.models.utils"] = utils
  from perceptual_advex import distances, perceptual_attacks
  from perceptual_advex.models import FeatureModel

  def flatten(features, eps=1e-10):
    """Flattens as their function does, by `reshape`, because `view` fails on memory formats of today's torch."""
    units = [layer / (layer.norm(dim=1, keepdim=True) + eps) for layer in features]
    return torch.cat([(u / np.sqrt(u.shape[2] * u.shape[3])).reshape(len(u), -1) for u in units], dim=1)

  distances.normalize_flatten_features = perceptual_attacks.normalize_flatten_features = flatten

  class ResNet32(FeatureModel):
    def __init__(self):
      super().__init__()
      self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
      for stage, (inputs, outputs) in enumerate(((16, 16), (16, 32), (32, 64)), 1):
        blocks = [Block(outputs if i else inputs, outputs, 2 if stage > 1 and not i else 1) for i in range(5)]
        setattr(self, f"layer{stage}", nn.Sequential(*blocks))
      self.linear = nn.Linear(64, 10)
      self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406])[:, None, None])
      self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225])[:, None, None])

    def features(self, x):
      first = self.layer1(torch.relu(self.bn1(self.conv1((x - self.mean) / self.std))))
      second = self.layer2(first)
      return first, second, self.layer3(second)

    def classifier(self, last):
      return self.linear(last.mean((2, 3)))

  state = torch.load(file, map_location="cpu", weights_only=False)
  net = ResNet32()
  state = {name.removeprefix("module."): value for name, value in state.get("state_dict", state).items()}
  missing, unknown = net.load_state_dict(state, strict=False)
  assert set(missing) <= {"mean", "std"} and not unknown, (missing, unknown)
  nn.Module.eval(net)
  return net


def make(name, net, eps):
  from perceptual_advex import attacks, perceptual_attacks

  if name == "stadv":
    return attacks.StAdvAttack(net, bound=eps, num_iterations=100)
  if name == "recolor":
    return attacks.ReColorAdvAttack(net, bound=eps, num_iterations=100)
  kind = perceptual_attacks.LagrangePerceptualAttack if name == "lpa" else perceptual_attacks.PerceptualPGDAttack
  return kind(net, bound=eps, num_iterations=40, lpips_model="self")


def answer(job):
  try:
    net = load(Path(job["data"], job["file"]))
    attack = make(job["attack"], net, job["eps"])
  except ImportError as error:
    return {"missing": str(error)}
  data = np.load(Path(job["data"], "cifar10_test.npz"))
  images = torch.tensor(data["images"][: job["n"]].transpose(0, 3, 1, 2).astype(np.float32) / 255).contiguous()
  labels = torch.tensor(data["labels"][: job["n"]].astype(np.int64))
  torch.manual_seed(0)
  start = time.perf_counter()
  found = attack(images, labels)
  took = time.perf_counter() - start
  with torch.no_grad():
    robust = float((net(found).argmax(1) == labels).float().mean())
  return {"seconds": took, "robust": robust, "peer": "perceptual-advex", "version": version("perceptual-advex")}


if __name__ == "__main__":
  for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
