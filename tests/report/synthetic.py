"""A results folder without networks: random verdicts in every shape a cell can have."""

import numpy as np

from jaxrobust.results import Cell, Result, save_result
from jaxrobust.results.cell import to_text
from jaxrobust.results.store import sibling

FAMILIES = ("resnet", "vit", None)
TECHNIQUES = ("standard", "pgd-at")


def result(cell, examples, about=None, **more):
  robust = examples["robust"]
  summary = {
    "n": len(robust),
    "correct": int(examples["correct"].sum()),
    "robust": int(robust.sum()),
    "accuracy": float(examples["correct"].mean()),
    "robust_accuracy": float(robust.mean()),
  }
  provenance = {"model": about} if about else {}
  return Result(cell=cell, config={}, summary=summary, examples=examples, provenance=provenance, **more)


ATTACKS = ("linf-fgsm", "linf-pgd-20", "linf-autoattack")


def write_model(root, name, at, n=40, rich=True, fast=False, attacks=ATTACKS, budgets=("4/255", "8/255")):
  """Cells of one model; `fast` leaves out what makes files safe on disk."""
  rng = np.random.default_rng(at)
  flags = lambda share: rng.random(n) < share
  about = {"arch": f"net{at % 3}", "family": FAMILIES[at % 3], "technique": TECHNIQUES[at % 2], "params": 1000 * at}
  correct = flags(0.9)
  distance = np.where(correct, rng.exponential(0.05, n), 0).astype(np.float32)
  distance[correct & flags(0.1)] = np.inf
  cells = {("clean", "none", None): {"correct": correct, "robust": correct}}
  for attack in attacks:
    for eps in budgets:
      robust = correct & flags(0.6)
      broken_at = np.where(robust, -1, np.where(correct, rng.integers(1, 20, n), 0)).astype(np.int32)
      cells["clean", attack, eps] = {"correct": correct, "robust": robust, "broken_at": broken_at}
  if rich:
    cells["clean", "linf-fab-100", None] = {
      "correct": correct,
      "robust": correct & np.isinf(distance),
      "distance": distance,
    }
    cells["clean", "transfer:other:linf-pgd-20", "8/255"] = {"correct": correct, "robust": correct & flags(0.8)}
    for name_, severity in (("fog", 1), ("fog", 3), ("glass_blur", 1)):
      seen = correct & flags(0.7)
      cells[f"{name_}-{severity}-t32", "none", None] = {"correct": seen, "robust": seen}
  for (condition, attack, eps), examples in cells.items():
    cell = Cell(model=name, data="digits", condition=condition, attack=attack, eps=eps, n=n)
    item = result(cell, examples, about)
    if fast:
      path = cell.path(root)
      path.parent.mkdir(parents=True, exist_ok=True)
      path.write_text(to_text(item))
    else:
      path = save_result(root, item)
    if rich and attack == "linf-pgd-20" and eps == "8/255":
      clean = rng.integers(0, 255, (2, 8, 8, 3)).astype(np.uint8)
      adversarial = np.clip(clean.astype(int) + rng.integers(-8, 9, clean.shape), 0, 255).astype(np.uint8)
      labels = {"label": np.array([3, 1]), "prediction": np.array([5, 7])}
      np.savez(sibling(path, ".images.npz"), clean=clean, adversarial=adversarial, **labels)


def write_shift(root, name, at, n=30):
  """The same model on another data set, under an L2 attack."""
  rng = np.random.default_rng(100 + at)
  correct = rng.random(n) < 0.7
  for attack, eps, robust in (("none", None, correct), ("l2-pgd-20", "0.5", correct & (rng.random(n) < 0.5))):
    save_result(
      root,
      result(Cell(model=name, data="digits-v2", attack=attack, eps=eps, n=n), {"correct": correct, "robust": robust}),
    )
