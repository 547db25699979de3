"""Attacks within threats that are no norms, beside perceptual-advex on the same ResNet-32.

The network is ReColorAdv's, trained against linf (`weights/recoloradv/delta.resnet32.pt` of $JAXROBUST_DATA); LPIPS is
that of the network itself. Both sides attack at OODRobustBench's budgets. Ours end an image at its first success;
perceptual-advex makes all steps but for LPA, which leaves successes alone too.

Efficiency counts what an algorithm needs at the least: the network's own passes, and those of LPIPS (`PASSES`), each at
the price of a bare pass of the network, which is what LPIPS looks through here.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrobust.attacks.registry import make_attack
from jaxrobust.bench.bare import BareCost, bare_cost, between
from jaxrobust.bench.peers import Peers
from jaxrobust.bench.rows import Row, chosen
from jaxrobust.bench.workloads import Workload, data_folder
from jaxrobust.core.errors import InputError
from jaxrobust.engine.api import AttackResult, attack_images
from jaxrobust.models.weights.convert import convert_checkpoint
from jaxrobust.models.zoo import load_classifier

WORKER = Path(__file__).with_name("threat_worker.py")
FILE = Path("weights", "recoloradv", "delta.resnet32.pt")
NORMALIZATION: dict[str, Any] = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


class ThreatContest(NamedTuple):
  """An attack at a budget, and the passes of LPIPS that one of its steps makes at the least."""

  name: str
  eps: str
  forward: int = 0
  backward: int = 0


CONTESTS = (
  ThreatContest("stadv", "0.05"),
  ThreatContest("recolor", "0.06"),
  ThreatContest("lpa", "0.5", 2, 1),
  # The point, five products, the length of the step, one look of the projection.
  ThreatContest("ppgd", "0.5", 8, 6),
)


def run(peer_python: str = "", only: str = "", n: int = 32, repeats: int = 1) -> Iterator[Row]:
  """Yields the rows of each attack whose name contains `only`, as it ends; both sides attack the first n images."""
  names = chosen([contest.name for contest in CONTESTS], only)
  folder = data_folder()
  if folder is None or not (folder / FILE).exists():
    raise InputError(f"bench threats needs {FILE}: set JAXROBUST_DATA to a folder that has it")
  work = _workload(folder, n)
  with Peers(peer_python, folder, WORKER) as peers:
    for contest in CONTESTS:
      if contest.name in names:
        yield from _compete(contest, work, peers, repeats)


def _workload(folder: Path, n: int) -> Workload:
  with tempfile.TemporaryDirectory() as place:
    convert_checkpoint(folder / FILE, "resnet32", Path(place, "delta"), **NORMALIZATION)
    classifier = load_classifier(Path(place, "delta"))
  with np.load(folder / "cifar10_test.npz") as data:
    images, labels = data["images"][:n].astype(np.float32) / 255, data["labels"][:n].astype(np.int32)
  return Workload("cifar10 resnet32", classifier, images, labels)


def _ours(contest: ThreatContest, work: Workload) -> tuple[float, AttackResult]:
  start = time.perf_counter()
  attack = make_attack(contest.name)
  result = attack_images(attack, work.classifier, work.images, work.labels, eps=contest.eps, batch_size=16)
  return time.perf_counter() - start, result


def _needed(contest: ThreatContest, cost: BareCost, result: AttackResult) -> float:
  """Returns the seconds that all passes of a run take by themselves."""
  steps = result.stats.useful_steps
  plain = contest.forward - contest.backward
  return cost.needed(result.stats) + steps * (contest.backward * cost.gradient + plain * cost.forward)


def _compete(contest: ThreatContest, work: Workload, peers: Peers, repeats: int) -> list[Row]:
  best, theirs, efficiency = float("inf"), float("inf"), 0.0
  reply: dict[str, Any] = {"missing": "not asked"}
  _ours(contest, work)  # Compiles.
  for _ in range(repeats):
    before = bare_cost(work)
    seconds, result = _ours(contest, work)
    efficiency = max(efficiency, _needed(contest, between(before, bare_cost(work)), result) / seconds)
    best = min(best, seconds)
    reply = peers.ask(file=str(FILE), n=len(work.images), attack=contest.name, eps=float(contest.eps))
    theirs = min(theirs, reply.get("seconds", float("inf")))
  name, known = f"{work.name}, {contest.name}@{contest.eps}", "missing" not in reply
  ratio = theirs / best if known else None
  peer = reply.get("peer", f"perceptual-advex: {reply.get('missing')}")
  stats = result.stats
  useful = stats.useful_steps / stats.slot_steps
  rows = [Row(name, len(work.images) / best, "images/s", peer, reply.get("version"), ratio, efficiency, useful)]
  if known:
    rows += [
      Row(f"{name}, robust accuracy", float(result.robust.mean()), "ours"),
      Row(f"{name}, robust accuracy", reply["robust"], f"{peer}, last point"),
    ]
  return rows
