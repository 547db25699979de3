"""No attack of the library breaks what is certified: published networks, three budgets each, both norms.

Gradient attacks see all certified examples of the first 500 images, each at the largest budget that it is certified at;
attacks by queries the first 100 that are certified at a budget.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from jaxrobust.attacks.registry import make_attack
from jaxrobust.attacks.schedule import Cascade, Stage
from jaxrobust.certify.certifier import certify_images
from jaxrobust.core.budget import Budget
from jaxrobust.core.classifier import Classifier
from jaxrobust.engine.api import attack_images
from tests.realdata import cifar10_network, cifar10_test, fmnist_network, fmnist_test, needs_data

LINF, L2 = ("2/255", "1/255", "0.5/255"), ("0.2", "0.1", "0.05")
# Largest budget first; how many images; how many certificates there have to be at the smallest budget.
CASES = {
  "kw_base": ("linf", LINF, 500, 200),
  "kw_wide": ("linf", LINF, 500, 200),
  "cnn_a_adv": ("linf", LINF, 500, 50),
  "cnn_a_adv4": ("linf", LINF, 500, 50),
  "fmnist": ("linf", ("0.05", "0.02", "0.01"), 500, 50),
  "kw_base-l2": ("l2", L2, 100, 20),
}
# Every attack within a budget by gradients; those of a target aim at the class that comes second.
GRADIENTS = (
  "fgsm", "bim", "pgd", "mim", "ni-fgsm", "dim", "tim", "si-ni-fgsm", "vmi-fgsm", "vni-fgsm", "admix", "ssa", "apgd-ce",
  "apgd-dlr", "apgd-t", "mm5",
)  # fmt: skip
MINIMAL = ("fab", "fab-t", "deepfool", "fmn", "ddn", "cw")
QUERIES = ("square", "nes", "signhunter")
OPTIONS: dict[str, dict[str, Any]] = {
  "fab": {"num_steps": 20},
  "fab-t": {"num_steps": 50},
  "deepfool": {"num_steps": 20},
  "fmn": {"num_steps": 50},
  "cw": {"binary_search_steps": 2, "num_steps": 50},
  "square": {"num_steps": 1000},
  "nes": {"queries": 1000},
  "signhunter": {"queries": 1000},
}


def _attack(name: str, norm: str) -> Any:
  attack = make_attack(name, norm=norm, **OPTIONS.get(name, {}))
  return Cascade((Stage(attack, rank=1),)) if name in ("apgd-t", "fab-t") else attack


def _has(name: str, norm: str) -> bool:
  return (name, norm) not in {("ddn", "linf"), ("signhunter", "l2")}


def _case(name: str) -> tuple[Classifier, tuple[np.ndarray, np.ndarray]]:
  if name == "fmnist":
    return fmnist_network(), fmnist_test(500)
  return cifar10_network(name.partition("-")[0]), cifar10_test(500)


def _certified(model: Classifier, images: np.ndarray, labels: np.ndarray, norm: str, budgets: tuple) -> dict:
  """Returns for each budget which images are certified; what is proved at one holds at all below."""
  proved, found = np.zeros(len(labels), bool), {}
  for eps in budgets:
    rows = np.flatnonzero(~proved)
    proved[rows] = certify_images(model, images[rows], labels[rows], eps, norm=norm).certified
    found[eps] = proved.copy()
  return found


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("name", CASES)
def test_no_attack_breaks_what_is_certified(name: str) -> None:
  norm, budgets, n, least = CASES[name]
  model, (images, labels) = _case(name)
  images, labels = images[:n], labels[:n]
  certified = _certified(model, images, labels, norm, budgets)
  print(name, {eps: int(rows.sum()) for eps, rows in certified.items()}, flush=True)
  assert certified[budgets[-1]].sum() >= least
  broken = {}
  larger = np.zeros(n, bool)
  for eps, proved in certified.items():
    for attack in filter(lambda one: _has(one, norm), GRADIENTS + QUERIES):
      rows = np.flatnonzero(proved)[:100] if attack in QUERIES else np.flatnonzero(proved & ~larger)
      if len(rows):
        made, starts = _attack(attack, norm), (images, labels)
        result = attack_images(made, model, images[rows], labels[rows], eps=eps, starts=starts)
        broken[eps, attack] = int((~result.robust).sum())
    larger = proved
    jax.clear_caches()  # So many programs take all memory mappings that a process may have.
  largest = np.max([np.where(proved, Budget.parse(eps, norm).value, 0.0) for eps, proved in certified.items()], axis=0)
  rows = np.flatnonzero(largest)
  for attack in filter(lambda one: _has(one, norm), MINIMAL):
    result = attack_images(_attack(attack, norm), model, images[rows], labels[rows])
    broken["", attack] = int((result.distance <= largest[rows]).sum())
  print(name, len(broken), "runs, broken:", sum(broken.values()), flush=True)
  assert not any(broken.values()), broken
  # The same attacks do break what is not certified, so that this test can fail.
  others = np.flatnonzero(~certified[budgets[0]])[:100]
  eps = 4 * Budget.parse(budgets[0], norm).value
  assert not attack_images(_attack("mm5", norm), model, images[others], labels[others], eps=eps).robust.all()
