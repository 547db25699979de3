"""Attacks against other implementations of them, on real CIFAR-10 networks, in one run.

  jaxrobust bench attacks --peer_python=PYTHON --autoattack_path=DIR --mm_path=DIR [--only=autoattack]

Needs $JAXROBUST_DATA. Where a peer is not installed its row says so. Ours and theirs take turns; each keeps its best
time, per image, because the slower one gets fewer images.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from jaxrobust.attacks.minimum_budget import MinimumBudget
from jaxrobust.attacks.registry import make_attack
from jaxrobust.bench.bare import BareCost, bare_cost
from jaxrobust.bench.peers import Peers
from jaxrobust.bench.rows import Row
from jaxrobust.bench.workloads import Workload, data_folder, workload
from jaxrobust.core.errors import InputError
from jaxrobust.core.threat import Budget
from jaxrobust.engine.api import AttackResult, attack_images


class Contest(NamedTuple):
  """One comparison.

  Attributes:
    network, eps: the workload; no eps for minimal attacks.
    name, options: our attack.
    n: our images. peer_n: theirs, where fewer are enough to time them.
    peer: the worker's name for theirs. steps, rounds: its parameters.
  """

  network: str
  eps: str | None
  name: str
  options: dict[str, Any]
  n: int
  peer: str
  peer_n: int
  steps: int = 0
  rounds: int = 0


CONTESTS = (
  Contest("resnet20", "8/255", "autoattack", {}, 512, "autoattack", 128),
  Contest("resnet20", "8/255", "mm5", {}, 512, "mm5", 128),
  Contest("resnet20", "8/255", "pgd", {"num_steps": 40}, 512, "foolbox-pgd", 128, 40),
  Contest("resnet20", "8/255", "pgd", {"num_steps": 40}, 512, "torchattacks-pgd", 128, 40),
  Contest("cnn_a_adv4", "8/255", "autoattack", {}, 128, "autoattack", 128),
  Contest("cnn_a_adv4", "8/255", "mm5", {}, 1024, "mm5", 512),
  Contest("cnn_a_adv4", None, "ddn", {}, 512, "foolbox-ddn", 512, 100),
  Contest("cnn_a_adv4", None, "cw", {"binary_search_steps": 5, "steps": 200}, 128, "foolbox-cw", 128, 200, 5),
)


def run(
  peer_python: str = "", autoattack_path: str = "", mm_path: str = "", only: str = "", repeats: int = 2
) -> list[Row]:
  """All contests, or those whose attack's name contains `only`; then the minimum-budget search."""
  folder = data_folder()
  if folder is None:
    raise InputError("bench attacks needs real networks: set JAXROBUST_DATA to their folder")
  paths = {"autoattack": autoattack_path or None, "mm5": mm_path or None}
  rows: list[Row] = []
  costs: dict[str, tuple[Workload, BareCost]] = {}
  with Peers(peer_python, folder) as peers:
    for contest in CONTESTS:
      if only in contest.name:
        if contest.network not in costs:
          work = workload(contest.network, 1024)
          costs[contest.network] = work, bare_cost(work)
        rows += _compete(contest, *costs[contest.network], peers, paths.get(contest.peer), repeats)
  if only in "minimum-budget":
    work = workload("cnn_a_adv4", 256)
    rows += _minimum_budget(work, bare_cost(work), repeats)
  return rows


def _ours(contest: Contest, work: Workload) -> tuple[float, AttackResult]:
  attack = make_attack(contest.name, **contest.options)
  start = time.perf_counter()
  result = attack_images(
    attack, work.classifier, work.images[: contest.n], work.labels[: contest.n], eps=contest.eps, batch_size=64
  )
  return time.perf_counter() - start, result


def _compete(
  contest: Contest, work: Workload, bare: BareCost, peers: Peers, path: str | None, repeats: int
) -> list[Row]:
  eps = None if contest.eps is None else Budget.parse(contest.eps).value
  job = {"network": contest.network, "n": contest.peer_n, "attack": contest.peer, "eps": eps, "path": path}
  best, theirs, reply = float("inf"), float("inf"), {}
  _ours(contest, work)  # Compiles.
  for _ in range(repeats):
    seconds, result = _ours(contest, work)
    best = min(best, seconds)
    reply = peers.ask(**job, steps=contest.steps, rounds=contest.rounds)
    if "missing" not in reply:
      theirs = min(theirs, reply["seconds"])
  stats = result.stats
  name = f"{work.name}, {contest.name}" + (f"@{contest.eps}" if contest.eps else "")
  known = "missing" not in reply
  row = Row(
    name,
    contest.n / best,
    "images/s",
    reply.get("peer", f"{contest.peer}: {reply.get('missing')}"),
    reply.get("version"),
    (theirs / contest.peer_n) / (best / contest.n) if known else None,
    bare.needed(stats) / best,
    stats.useful_steps / stats.slot_steps,
  )
  return [row, *_quality(name, contest, result, reply)] if known else [row]


def _quality(name: str, contest: Contest, result: AttackResult, reply: dict[str, Any]) -> list[Row]:
  """The same answer, not only faster: robust accuracy or median distance over the same images."""
  part = slice(0, min(contest.n, contest.peer_n))
  if contest.eps is not None:
    ours, theirs, what = float(result.robust[part].mean()), reply["robust"], "robust accuracy"
  else:
    ours = float(np.median(result.distance[part][result.correct[part]]))
    theirs, what = reply["median"], "median distance"
  return [Row(f"{name}, {what}, first {part.stop}", ours, "ours"), Row(f"{name}, {what}", theirs, reply["peer"])]


def _minimum_budget(work: Workload, bare: BareCost, repeats: int) -> list[Row]:
  """The search against a full attack on every image at each of 5 doublings and 10 bisections."""
  bim = make_attack("bim", num_steps=20, step_size=0.15)
  search = MinimumBudget(bim)
  call = (work.classifier, work.images, work.labels)
  attack_images(search, *call, batch_size=64)
  best = float("inf")
  for _ in range(repeats):
    start = time.perf_counter()
    result = attack_images(search, *call, batch_size=64)
    best = min(best, time.perf_counter() - start)
  stats = result.stats
  usual = 15 * (20 * bare.gradient + bare.forward) * len(work.images)
  return [
    Row(
      f"{work.name}, minimum-budget bim-20 (to {search.tolerance:.0%})",
      len(work.images) / best,
      "images/s",
      "15 full attacks at bare speed",
      None,
      usual / best,
      bare.needed(stats) / best,
      stats.useful_steps / stats.slot_steps,
    )
  ]
