"""Attacks against other implementations of them, on real CIFAR-10 networks, in one run.

  jaxrobust bench attacks --peer_python=PYTHON --autoattack_path=DIR --mm_path=DIR [--only='cnn_a_adv4 mm5']

Needs $JAXROBUST_DATA. Where a peer is not installed its row says so. Ours and theirs take turns; each keeps its best
time, per image, because the slower one gets fewer images.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from jaxrobust.attacks.minimum_budget import START, MinimumBudget
from jaxrobust.attacks.pgd import PGD
from jaxrobust.attacks.registry import make_attack
from jaxrobust.bench.bare import bare_cost, between
from jaxrobust.bench.engine import fixed_batches
from jaxrobust.bench.peers import Peers
from jaxrobust.bench.rows import Row, alternate, chosen
from jaxrobust.bench.workloads import Workload, data_folder, workload
from jaxrobust.core.budget import Budget
from jaxrobust.core.errors import InputError
from jaxrobust.engine.api import AttackResult, attack_images

# The larger the network, the fewer images fill a CPU's caches; the smaller, the more a dispatch must carry.
SLOTS = {"resnet20": 32, "cnn_a_adv4": 128}


class Contest(NamedTuple):
  """One comparison.

  Attributes:
    network, eps: the workload; no eps for minimal attacks.
    name, options: our attack.
    n: our images. peer_n: theirs, where fewer are enough to time them.
    peer: the worker's name for theirs. steps, rounds: its parameters.
    slots: ours; 0 for what suits the network.
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
  slots: int = 0

  @property
  def title(self) -> str:
    return f"{self.network} {self.name}"


CONTESTS = (
  Contest("resnet20", "8/255", "autoattack", {}, 512, "autoattack", 128),
  Contest("resnet20", "8/255", "mm5", {}, 1024, "mm5", 128, slots=64),
  Contest("resnet20", "8/255", "pgd", {"num_steps": 40}, 512, "foolbox-pgd", 128, 40),
  Contest("resnet20", "8/255", "pgd", {"num_steps": 40}, 512, "torchattacks-pgd", 128, 40),
  Contest("cnn_a_adv4", "8/255", "autoattack", {}, 512, "autoattack", 256),
  Contest("cnn_a_adv4", "8/255", "mm5", {}, 1024, "mm5", 512),
  Contest("cnn_a_adv4", None, "ddn", {}, 512, "foolbox-ddn", 512, 100),
  Contest("cnn_a_adv4", None, "cw", {"binary_search_steps": 5, "steps": 200}, 128, "foolbox-cw", 128, 200, 5, 32),
)
# The minimum-budget search: the network and how many images.
SEARCHES = {"resnet20": 128, "cnn_a_adv4": 1024}
_SEARCH = "{} minimum-budget"


def run(
  peer_python: str = "", autoattack_path: str = "", mm_path: str = "", only: str = "", repeats: int = 2
) -> Iterator[Row]:
  """Yields a row per contest, then per minimum-budget search, of those whose title contains `only`, as it ends."""
  searches = {_SEARCH.format(network): network for network in SEARCHES}
  titles = chosen([*dict.fromkeys(contest.title for contest in CONTESTS), *searches], only)
  folder = data_folder()
  if folder is None:
    raise InputError("bench attacks needs real networks: set JAXROBUST_DATA to their folder")
  paths = {"autoattack": autoattack_path or None, "mm5": mm_path or None}
  works: dict[str, Workload] = {}
  with Peers(peer_python, folder) as peers:
    for contest in CONTESTS:
      if contest.title in titles:
        work = works.setdefault(contest.network, workload(contest.network, 1024))
        yield from _compete(contest, work, peers, paths.get(contest.peer), repeats)
  for title, network in searches.items():
    if title in titles:
      yield from _minimum_budget(workload(network, SEARCHES[network]), SLOTS[network], repeats)


def _ours(contest: Contest, work: Workload) -> tuple[float, AttackResult]:
  attack = make_attack(contest.name, **contest.options)
  start = time.perf_counter()
  result = attack_images(
    attack,
    work.classifier,
    work.images[: contest.n],
    work.labels[: contest.n],
    eps=contest.eps,
    batch_size=contest.slots or SLOTS[contest.network],
  )
  return time.perf_counter() - start, result


def _compete(contest: Contest, work: Workload, peers: Peers, path: str | None, repeats: int) -> list[Row]:
  eps = None if contest.eps is None else Budget.parse(contest.eps).value
  job = {"network": contest.network, "n": contest.peer_n, "attack": contest.peer, "eps": eps, "path": path}
  best, theirs, reply = float("inf"), float("inf"), {}
  _ours(contest, work)  # Compiles.
  efficiency = 0.0
  for _ in range(repeats):
    before = bare_cost(work)
    seconds, result = _ours(contest, work)
    efficiency = max(efficiency, between(before, bare_cost(work)).needed(result.stats) / seconds)
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
    efficiency,
    stats.useful_steps / stats.slot_steps,
  )
  return [row, *_quality(name, contest, result, reply)] if known else [row]


def _quality(name: str, contest: Contest, result: AttackResult, reply: dict[str, Any]) -> list[Row]:
  """Returns the same answer, not only faster: robust accuracy or median distance over the same images."""
  part = slice(0, min(contest.n, contest.peer_n))
  if contest.eps is not None:
    ours, theirs, what = float(result.robust[part].mean()), reply["robust"], "robust accuracy"
  else:
    ours = float(np.median(result.distance[part][result.correct[part]]))
    theirs, what = reply["median"], "median distance"
  return [Row(f"{name}, {what}, first {part.stop}", ours, "ours"), Row(f"{name}, {what}", theirs, reply["peer"])]


def _bisection(attack: PGD, work: Workload, doublings: int = 5, bisections: int = 10) -> np.ndarray:
  """Searches in the usual way: all images through a full attack at each doubling and each bisection."""
  low, high = np.zeros(len(work.images)), np.full(len(work.images), START["linf"])
  found = np.zeros(len(work.images), bool)
  for _ in range(doublings):
    robust = fixed_batches(attack, work, high)
    low, found = np.where(robust & ~found, high, low), found | ~robust
    high = np.where(found, high, 2 * high)
  for _ in range(bisections):
    middle = (low + high) / 2
    robust = fixed_batches(attack, work, middle)
    low, high = np.where(robust, middle, low), np.where(robust, high, middle)
  return high


def _minimum_budget(work: Workload, slots: int, repeats: int) -> list[Row]:
  """Returns the search against a full attack on every image at each of 5 doublings and 10 bisections."""
  bim = make_attack("bim", num_steps=20, step_size=0.15)
  search = MinimumBudget(bim)

  def ours() -> AttackResult:
    return attack_images(search, work.classifier, work.images, work.labels, batch_size=slots)

  contestants = {"search": ours, "bisection": lambda: _bisection(bim, work)}
  ours(), fixed_batches(bim, work, np.full(len(work.images), START["linf"]))  # Compile.
  before = bare_cost(work)
  times, results = alternate(contestants, repeats)
  bare = between(before, bare_cost(work))
  result, count = results["search"], len(work.images)
  stats, right = result.stats, result.correct
  name = f"{work.name}, minimum-budget bim-20"
  return [
    Row(
      f"{name} (to {search.tolerance:.0%})",
      count / times["search"],
      "images/s",
      "15 full attacks",
      None,
      times["bisection"] / times["search"],
      bare.needed(stats) / times["search"],
      stats.useful_steps / stats.slot_steps,
    ),
    Row(f"{name}, median", float(np.median(result.distance[right])), "ours"),
    Row(f"{name}, median", float(np.median(results["bisection"][right])), "15 full attacks"),
  ]
