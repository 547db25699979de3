"""Query attacks of other libraries, timed on request; run by their own Python, which needs torch but not jaxrobust.

One JSON object per line on standard input, one per line back:
  {"network": "resnet20", "data": FOLDER, "n": 16, "attack": "torchattacks-spsa", "eps": 0.0039, "options": {…}}
  -> {"seconds": 1.2, "queries": 16160, "peer": "torchattacks", "version": "…"} or {"missing": "why"}
Queries are the images that the network really evaluates. A new peer is a function and a row of PEERS.
"""

import json
import sys
import time

import numpy as np
import torch
from peer_worker import load, torchvision, version
from torch import nn


class Counted(nn.Module):
  """A network that counts the images it sees."""

  def __init__(self, net):
    super().__init__()
    self.net, self.queries = net, 0

  def forward(self, x):
    self.queries += len(x)
    return self.net(x)


def torchattacks_spsa(model, x, y, eps, options):
  torchvision()
  import torchattacks

  attack = torchattacks.SPSA(model, eps=eps, **options)
  return (lambda: attack(x, y)), "torchattacks"


def torchattacks_square(model, x, y, eps, options):
  torchvision()
  import torchattacks

  attack = torchattacks.Square(model, norm="Linf", eps=eps, seed=0, **options)
  return (lambda: attack(x, y)), "torchattacks"


def art_classifier(model, probabilities=False):
  """Returns the network as ART sees it."""
  from art.estimators.classification import PyTorchClassifier

  network = nn.Sequential(model, nn.Softmax(1)) if probabilities else model
  return PyTorchClassifier(network, nn.CrossEntropyLoss(), (3, 32, 32), 10, clip_values=(0.0, 1.0), device_type="cpu")


def art_square(model, x, y, eps, options):
  from art.attacks.evasion import SquareAttack

  attack = SquareAttack(art_classifier(model), norm=np.inf, eps=eps, batch_size=128, verbose=False, **options)
  return (lambda: attack.generate(x.numpy(), y.numpy())), "adversarial-robustness-toolbox"


def art_simba(model, x, y, eps, options):
  del eps
  from art.attacks.evasion import SimBA

  attack = SimBA(art_classifier(model, True), attack="px", order="random", freq_dim=32, verbose=False, **options)
  labels = np.eye(10, dtype=np.float32)[y.numpy()]
  return (lambda: attack.generate(x.numpy().copy(), labels)), "adversarial-robustness-toolbox"


def one_by_one(attack, model, x, y):
  """Runs foolbox's attacks with each image one batch, because they share noise and norms over it."""
  import foolbox

  network = foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu")
  goal = foolbox.criteria.Misclassification
  return lambda: [attack.run(network, x[i : i + 1], goal(y[i : i + 1])) for i in range(len(x))]


def foolbox_boundary(model, x, y, eps, options):
  del eps
  import foolbox

  return one_by_one(foolbox.attacks.BoundaryAttack(**options), model, x, y), "foolbox"


def foolbox_hopskipjump(model, x, y, eps, options):
  del eps
  import foolbox

  return one_by_one(foolbox.attacks.HopSkipJumpAttack(**options), model, x, y), "foolbox"


def art_sign_opt(model, x, y, eps, options):
  del eps
  from art.attacks.evasion import SignOPTAttack

  attack = SignOPTAttack(art_classifier(model), targeted=False, batch_size=1, **options)
  return (lambda: attack.generate(x.numpy().copy(), y.numpy())), "adversarial-robustness-toolbox"


PEERS = {
  "torchattacks-spsa": torchattacks_spsa,
  "torchattacks-square": torchattacks_square,
  "art-square": art_square,
  "art-simba": art_simba,
  "foolbox-boundary": foolbox_boundary,
  "foolbox-hopskipjump": foolbox_hopskipjump,
  "art-sign-opt": art_sign_opt,
}


def answer(job):
  model = Counted(load(job["network"], job["data"])).eval()
  with np.load(f"{job['data']}/cifar10_test.npz") as data:
    images = torch.from_numpy(data["images"][: job["n"]].astype(np.float32) / 255).permute(0, 3, 1, 2).contiguous()
    labels = torch.from_numpy(data["labels"][: job["n"]].astype(np.int64))
  run, peer = PEERS[job["attack"]](model, images, labels, job["eps"], job["options"])
  model.queries = 0
  begin = time.perf_counter()
  with torch.no_grad():
    run()
  return {
    "seconds": time.perf_counter() - begin,
    "queries": model.queries,
    "peer": f"{peer} {job['attack'].partition('-')[2]}",
    "version": version(peer),
  }


def main():
  torch.set_num_threads(2)
  for line in sys.stdin:
    try:
      reply = answer(json.loads(line))
    except ImportError as error:
      reply = {"missing": str(error)}
    print(json.dumps(reply), flush=True)


if __name__ == "__main__":
  main()
