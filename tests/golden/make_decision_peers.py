"""Records what other implementations of decision attacks do; writes two files beside this one.

  python make_decision_peers.py steps                     decision_steps.json; needs torch and foolbox
  python make_decision_peers.py DATA [IMAGES] [QUERIES]    decision_peers.json; DATA has cifar10_test.npz and weights/

`steps`: iterations of foolbox's Boundary and HopSkipJump from given points with given noise, on a linear classifier.
DATA: l2 distances of the closest adversarial image that foolbox's Boundary and HopSkipJump and ART's Sign-OPT had asked
about after some numbers of queries, each image attacked alone: foolbox shares noise and norms over a batch. All queries
are counted, those of the starting points too.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import pathlib
import sys
import time

import eagerpy
import foolbox
import numpy as np
import torch

HERE = pathlib.Path(__file__).parent
COUNTS = (500, 1000, 2000, 5000)
SIDE, STEPS, ROWS = 4, 24, 90


class SpentError(Exception):
  """The queries are spent."""


class Asked(torch.nn.Module):
  """A network that counts what one image's attack asks, and keeps the distance of the closest success."""

  def __init__(self, network, image, label, queries):
    super().__init__()
    self.network, self.image, self.label, self.queries = network, image, label, queries
    self.distances = []

  def forward(self, x):
    logits = self.network(x.float())
    for row, predicted in zip(x, logits.argmax(1), strict=True):
      best = self.distances[-1] if self.distances else float("inf")
      success = int(predicted) != self.label
      self.distances.append(min(best, float((row - self.image).norm())) if success else best)
    if len(self.distances) >= self.queries:
      raise SpentError
    return logits


def boundary(asked, image, label):
  model = foolbox.PyTorchModel(asked, bounds=(0, 1), device="cpu")
  attack = foolbox.attacks.BoundaryAttack(steps=10**6)
  attack.run(model, image[None], foolbox.criteria.Misclassification(torch.tensor([label])))


def hopskipjump(asked, image, label):
  model = foolbox.PyTorchModel(asked, bounds=(0, 1), device="cpu")
  attack = foolbox.attacks.HopSkipJumpAttack(steps=10**6)
  attack.run(model, image[None], foolbox.criteria.Misclassification(torch.tensor([label])))


def sign_opt(asked, image, label):
  from art.attacks.evasion import SignOPTAttack
  from art.estimators.classification import PyTorchClassifier

  classifier = PyTorchClassifier(
    asked, torch.nn.CrossEntropyLoss(), tuple(image.shape), 10, clip_values=(0.0, 1.0), device_type="cpu"
  )
  attack = SignOPTAttack(classifier, targeted=False, query_limit=10**9, max_iter=10**6, batch_size=1)
  attack.generate(image[None].numpy(), np.array([label]))


def closest(run, network, image, label, counts, seed):
  """Returns the distance that an attack has reached after each number of queries; None for none."""
  torch.manual_seed(seed)
  np.random.seed(seed)
  asked = Asked(network, image, label, counts[-1])
  try:
    run(asked, image, label)
  except (SpentError, ValueError) as error:  # foolbox raises ValueError where no noise is misclassified.
    if not isinstance(error, SpentError):
      print(seed, error)
  seen = asked.distances + [asked.distances[-1]] * counts[-1]
  return [round(seen[at - 1], 6) if seen[at - 1] < 1e9 else None for at in counts]


PEERS = {"boundary": boundary, "hopskipjump": hopskipjump, "sign-opt": sign_opt}


def record_distances(folder, count, queries):
  spec = importlib.util.spec_from_file_location("worker", HERE.parents[1] / "jaxrobust" / "bench" / "peer_worker.py")
  worker = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(worker)
  network = worker.load("cnn_a_adv", folder)
  with np.load(f"{folder}/cifar10_test.npz") as data:
    images, labels = data["images"][:500].astype(np.float32) / 255, data["labels"][:500]
  x = torch.from_numpy(images.transpose(0, 3, 1, 2).copy())
  right = np.flatnonzero(network(x).argmax(1).numpy() == labels)[:count]
  counts = [number for number in COUNTS if number <= queries]
  found = {"network": "cnn_a_adv", "images": right.tolist(), "queries": counts, "seconds": {}, "distances": {}}
  for name, run in PEERS.items():
    rows, began = [], time.time()
    for number in right:
      rows.append(closest(run, network, x[number], int(labels[number]), counts, int(number)))
    found["seconds"][name] = round(time.time() - began, 1)
    found["distances"][name] = rows
    medians = [float(np.median([np.inf if row[i] is None else row[i] for row in rows])) for i in range(len(counts))]
    print(name, counts, medians, found["seconds"][name], flush=True)
    (HERE / "decision_peers.json").write_text(json.dumps(found) + "\n")


class GivenNoise:
  """Stands in for eagerpy's draws: rows of a table, one after the other."""

  def __init__(self, table):
    self.table, self.next = table, 0

  def take(self, tensor, shape):
    size = int(np.prod(shape))
    rows = -(-size // self.table.shape[1])
    part = self.table[self.next : self.next + rows]
    self.next += rows
    return eagerpy.from_numpy(tensor, part.reshape(shape).astype(np.float32))


def record_steps():
  """On a linear classifier of two classes; every draw is a row of `noise`."""
  draw = np.random.RandomState(0)
  pixels = SIDE * SIDE
  weights = np.round(draw.randn(pixels), 3).astype(np.float32)
  image = np.round(draw.uniform(0.3, 0.7, pixels), 3).astype(np.float32)
  bias = float(np.float32(-(weights @ image) - 0.4 * np.linalg.norm(weights)))
  start = np.clip(image + 1.2 * weights / np.linalg.norm(weights) + 0.1 * draw.randn(pixels), 0, 1)
  start = np.round(start, 3).astype(np.float32)
  noise, uniform = np.round(draw.randn(ROWS, pixels), 3), np.round(draw.uniform(-0.99, 0.99, (ROWS, pixels)), 3)
  vector = torch.from_numpy(weights)

  def network(x):
    value = x.reshape(len(x), -1) @ vector + bias
    return torch.stack([torch.zeros_like(value), value], 1)

  vectors = {"weights": weights, "image": image, "start": start}
  found = {name: [round(float(one), 3) for one in value] for name, value in vectors.items()}
  found |= {"bias": bias, "noise": noise.tolist(), "uniform": uniform.tolist()}
  originals, starts = (torch.from_numpy(one).reshape(1, 1, SIDE, SIDE) for one in (image, start))

  class Wrapped(torch.nn.Module):
    def forward(self, x):
      return network(x)

  model = foolbox.PyTorchModel(Wrapped().eval(), bounds=(0, 1), device="cpu")
  criterion = foolbox.criteria.Misclassification(torch.tensor([0]))
  assert int(network(starts).argmax()) == 1 and int(network(originals).argmax()) == 0

  def run(make, table):
    given = GivenNoise(table)
    eagerpy.PyTorchTensor.normal = lambda self, shape, mean=0.0, stddev=1.0: given.take(self, shape)
    eagerpy.PyTorchTensor.uniform = lambda self, shape, low=0.0, high=1.0: given.take(self, shape)
    result = make().run(model, originals, criterion, starting_points=starts)
    return [round(value, 7) for value in result.reshape(-1).tolist()]

  walks = [run(functools.partial(foolbox.attacks.BoundaryAttack, steps=steps), noise) for steps in range(1, STEPS + 1)]
  jumps = {}
  for norm, table in (("l2", noise), ("linf", uniform)):
    options = {"constraint": norm, "initial_gradient_eval_steps": 20}
    jumps[norm] = [
      run(functools.partial(foolbox.attacks.HopSkipJumpAttack, steps=steps, **options), table) for steps in (1, 2, 3)
    ]
  found |= {"boundary": walks, "hopskipjump": jumps}
  (HERE / "decision_steps.json").write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
  torch.set_num_threads(1)
  if sys.argv[1] == "steps":
    record_steps()
  else:
    record_distances(sys.argv[1], *(int(part) for part in (*sys.argv[2:], 100, 2000)[:2]))
