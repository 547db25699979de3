"""Other implementations, timed on request: run by their own Python, which needs torch but not jaxrobust.

One JSON object per line on standard input, one per line back:
  {"network": "resnet20", "data": FOLDER, "n": 64, "attack": "autoattack", "eps": 0.0314, "path": CHECKOUT or null}
  -> {"seconds": 1.2, "robust": 0.0, "peer": "auto-attack", "version": "…"} or {"missing": "why"}
  {"model": "resnet50", "size": 224, "n": 8, "repeats": 3}
  -> {"forward": 0.2, "gradient": 0.5, "peer": "torchvision", "version": "…"}, seconds in the faster memory layout
"""

import importlib.metadata
import json
import sys
import time

import numpy as np
import torch
from torch import nn


class Block(nn.Module):
  """A CIFAR ResNet block with option-A shortcut."""

  def __init__(self, inputs, outputs, stride):
    super().__init__()
    self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
    self.bn1 = nn.BatchNorm2d(outputs)
    self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
    self.bn2 = nn.BatchNorm2d(outputs)
    self.stride, self.extra = stride, outputs - inputs

  def forward(self, x):
    y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
    if self.stride != 1 or self.extra:
      side = self.extra // 2
      x = nn.functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, side, self.extra - side))
    return torch.relu(y + x)


class ResNet20(nn.Module):
  """The CIFAR ResNet-20 of He et al. 2016."""

  def __init__(self):
    super().__init__()
    self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
    self.bn1 = nn.BatchNorm2d(16)
    for stage, (inputs, outputs) in enumerate(((16, 16), (16, 32), (32, 64)), 1):
      blocks = [Block(inputs if i == 0 else outputs, outputs, 2 if i == 0 and stage > 1 else 1) for i in range(3)]
      setattr(self, f"layer{stage}", nn.Sequential(*blocks))
    self.linear = nn.Linear(64, 10)

  def forward(self, x):
    x = torch.relu(self.bn1(self.conv1(x)))
    x = self.layer3(self.layer2(self.layer1(x)))
    return self.linear(x.mean((2, 3)))


class Normalized(nn.Module):
  """Takes images in [0, 1]."""

  def __init__(self, net, mean, std):
    super().__init__()
    self.net = net
    self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1))
    self.register_buffer("std", torch.tensor(std).view(1, 3, 1, 1))

  def forward(self, x):
    # The faster layout for the network; attacks that reshape images need the plain one outside.
    x = x.contiguous(memory_format=torch.channels_last)
    return self.net((x - self.mean) / self.std)


def load(network, folder):
  """Returns the network in torch with its published weights."""
  with np.load(f"{folder}/weights/cifar10_{network}.npz") as data:
    state = {name: torch.from_numpy(np.asarray(data[name])) for name in data}
  if network == "resnet20":
    net, mean, std = ResNet20(), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
  else:
    conv = lambda i, o: nn.Conv2d(i, o, 4, 2, 1)
    layers = [conv(3, 16), nn.ReLU(), conv(16, 32), nn.ReLU(), nn.Flatten(), nn.Linear(2048, 100), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Linear(100, 10))
    mean, std = (125.3 / 255, 123.0 / 255, 113.9 / 255), (63.0 / 255, 62.1 / 255, 66.7 / 255)
  net.load_state_dict(state, strict=False)
  model = Normalized(net, mean, std).eval()
  for parameter in model.parameters():
    parameter.requires_grad_(False)
  return model.to(memory_format=torch.channels_last)


def version(package):
  return importlib.metadata.version(package)


def autoattack(model, x, y, job):
  if job["path"]:
    sys.path.insert(0, job["path"])
  from autoattack import AutoAttack

  attack = AutoAttack(model, norm="Linf", eps=job["eps"], version="standard", device="cpu", seed=0, verbose=False)
  return (lambda: attack.run_standard_evaluation(x, y, bs=128)), "auto-attack", "authors' checkout"


def mm5(model, x, y, job):
  if not job["path"]:
    raise ImportError("needs a checkout of Sjtubrian/MM-attack (--mm_path)")
  sys.path.insert(0, job["path"])
  from attack_apgd import APGDAttack_targeted

  attack = APGDAttack_targeted(model, n_iter=20, norm="Linf", eps=job["eps"], seed=1, device="cpu")
  attack.loss = "mm"

  def run():
    adversarial = x.clone()
    for rank in range(5):
      standing = (model(adversarial).argmax(1) == y).nonzero().flatten()
      if len(standing):
        adversarial[standing] = attack.perturb(x[standing], y[standing], i=rank)
    return adversarial

  return run, "MM-attack", "authors' checkout"


def torchvision():
  """Imports the library, also where its compiled operators are built for another device and do not load."""
  if "torchvision" not in sys.modules:
    library = torch.library.Library("torchvision", "FRAGMENT")
    LIBRARIES.append(library)
    for name in ("nms", "qnms"):
      library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
  import torchvision

  return torchvision


LIBRARIES = []  # Definitions live as long as the object that made them.


def torchattacks_pgd(model, x, y, job):
  torchvision()
  import torchattacks

  attack = torchattacks.PGD(model, eps=job["eps"], alpha=job["eps"] * 2.5 / job["steps"], steps=job["steps"])
  return (lambda: attack(x, y)), "torchattacks", version("torchattacks")


def foolbox_attack(model, x, y, job):
  import foolbox

  wrapped = foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu")
  attacks = {
    "foolbox-pgd": lambda: foolbox.attacks.LinfPGD(steps=job["steps"], rel_stepsize=2.5 / job["steps"]),
    "foolbox-ddn": lambda: foolbox.attacks.DDNAttack(steps=job["steps"]),
    "foolbox-cw": lambda: foolbox.attacks.L2CarliniWagnerAttack(binary_search_steps=job["rounds"], steps=job["steps"]),
  }
  attack = attacks[job["attack"]]()
  epsilons = None if job["attack"] != "foolbox-pgd" else job["eps"]
  return (lambda: attack(wrapped, x, y, epsilons=epsilons)[1]), "foolbox", version("foolbox")


PEERS = {
  "autoattack": autoattack,
  "mm5": mm5,
  "torchattacks-pgd": torchattacks_pgd,
  "foolbox-pgd": foolbox_attack,
  "foolbox-ddn": foolbox_attack,
  "foolbox-cw": foolbox_attack,
}


def train_pgd(job):
  """Measures the median time of a plain PGD training step: craft in evaluation mode, then one update."""
  model = Normalized(ResNet20(), (0.5,) * 3, (0.25,) * 3).to(memory_format=torch.channels_last)
  optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, nesterov=True)
  x, y = torch.rand(job["n"], 3, 32, 32), torch.randint(0, 10, (job["n"],))
  eps, times = 8 / 255, []
  for _ in range(job["rounds"] + 1):
    begin = time.perf_counter()
    model.eval()
    adversarial = (x + torch.empty_like(x).uniform_(-eps, eps)).clamp(0, 1)
    for _ in range(job["steps"]):
      adversarial.requires_grad_()
      (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(model(adversarial), y), adversarial)
      moved = adversarial.detach() + eps / 2 * gradient.sign()
      adversarial = torch.min(torch.max(moved, x - eps), x + eps).clamp(0, 1)
    model.train()
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(adversarial), y).backward()
    optimizer.step()
    times.append(time.perf_counter() - begin)
  return {"seconds": float(np.median(times[1:])), "peer": "torch", "version": torch.__version__}


def answer(job, batch=128):
  if job["attack"] == "train-pgd":
    return train_pgd(job)
  model = load(job["network"], job["data"])
  with np.load(f"{job['data']}/cifar10_test.npz") as data:
    images = torch.from_numpy(data["images"][: job["n"]].astype(np.float32) / 255).permute(0, 3, 1, 2)
    labels = torch.from_numpy(data["labels"][: job["n"]].astype(np.int64))
  images = images.contiguous()
  seconds, robust, distances = 0.0, 0, []
  for start in range(0, len(images), batch):
    x, y = images[start : start + batch], labels[start : start + batch]
    run, peer, peer_version = PEERS[job["attack"]](model, x, y, job)
    begin = time.perf_counter()
    adversarial = run()
    seconds += time.perf_counter() - begin
    with torch.no_grad():
      robust += int((model(adversarial).argmax(1) == y).sum())
      distances += (adversarial - x).flatten(1).norm(dim=1)[model(x).argmax(1) == y].tolist()
  return {
    "seconds": seconds,
    "robust": robust / len(images),
    "median": float(np.median(distances)),
    "peer": peer,
    "version": peer_version,
  }


def bare_model(name):
  """Returns an untrained network; the timing does not depend on its weights."""
  models = torchvision().models
  if name == "vit_small_patch16_224":
    return models.VisionTransformer(224, 16, num_layers=12, num_heads=6, hidden_dim=384, mlp_dim=1536)
  net = getattr(models, name.removeprefix("cifar-"))()
  if name.startswith("cifar-"):
    net.conv1, net.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    net.fc = nn.Linear(net.fc.in_features, 10)
  return net


def time_model(job):
  """Returns the seconds of a forward pass and of one with its input gradient."""
  model = bare_model(job["model"]).eval()
  for parameter in model.parameters():
    parameter.requires_grad_(False)
  best = {"forward": float("inf"), "gradient": float("inf")}
  for layout in (torch.contiguous_format, torch.channels_last):
    model = model.to(memory_format=layout)
    images = torch.rand(job["n"], 3, job["size"], job["size"]).contiguous(memory_format=layout)

    def forward(images=images, model=model):
      with torch.no_grad():
        model(images)

    def gradient(images=images, model=model):
      x = images.detach().requires_grad_(True)
      model(x).square().sum().backward()

    for name, run in (("forward", forward), ("gradient", gradient)):
      run()
      for _ in range(job["repeats"]):
        begin = time.perf_counter()
        run()
        best[name] = min(best[name], time.perf_counter() - begin)
  return {**best, "peer": "torchvision", "version": f"{version('torchvision')}, torch {torch.__version__}"}


def main():
  torch.set_num_threads(2)
  for line in sys.stdin:
    try:
      job = json.loads(line)
      reply = time_model(job) if "model" in job else answer(job)
    except ImportError as error:
      reply = {"missing": str(error)}
    print(json.dumps(reply), flush=True)


if __name__ == "__main__":
  main()
