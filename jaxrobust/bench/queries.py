"""Query attacks: how many queries a second, against other libraries and against bare forward passes, in one run.

  jaxrobust bench queries --peer_python=PYTHON [--only='cnn_a_adv4 spsa']

Needs $JAXROBUST_DATA. Where a peer is not installed its row says so. Queries of ours are those that the attacks are
charged for, so that slots which idle count as lost time; those of peers are the images that their network evaluates.
Efficiency is the time of the forward passes, and of random directions where the row says so, over that of the run.
A peer that loops over images cannot be faster than forward passes at batch 1: the first row of a network says by how
much a batch is cheaper.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks.estimates import signs
from jaxrobust.attacks.registry import make_attack
from jaxrobust.bench.bare import BATCHES, bare_forward, bare_logits
from jaxrobust.bench.peers import Peers
from jaxrobust.bench.rows import Row, chosen, typical
from jaxrobust.bench.workloads import Workload, data_folder, spread, workload
from jaxrobust.core.budget import Budget
from jaxrobust.core.errors import InputError
from jaxrobust.core.threefry import normal
from jaxrobust.core.types import Array, Attack
from jaxrobust.engine.api import AttackResult, attack_images
from jaxrobust.engine.memory import group_size, program_bytes
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.program import Program

WORKER = Path(__file__).with_name("query_worker.py")
NETWORKS = ("resnet20", "cnn_a_adv4")
# So small that most images stand: what is timed is the attack, not how soon it ends.
EPS = "0.25/255"
MEGABYTE = 2**20
# Slots of an attack with one query a step; what those of many take, were they as many.
MANY = 128


class Draws(NamedTuple):
  """Says what an attack draws: by which function, and how many of an image's size for each query."""

  function: Callable[[Array, tuple[int, ...]], Array]
  each: float


class QueryContest(NamedTuple):
  """One comparison, on every network.

  Attributes:
    name, options: our attack.
    n: our images on each network, whole groups of slots where a step is one query: a run ends with its slowest group.
    peer, peer_options: the worker's name for theirs, and its parameters; empty for none.
    peer_n: their images.
    draws: random numbers without which the attack cannot be; None where they do not count.
    eps: the budget; None for minimal attacks.
  """

  name: str
  options: dict[str, Any]
  n: tuple[int, ...]
  peer: str = ""
  peer_options: dict[str, Any] = {}  # noqa: RUF012 - nobody writes to it
  peer_n: int = 4
  draws: Draws | None = None
  eps: str | None = EPS


NOISE = Draws(normal, 1.0)
SIGN_OPT = {"query_limit": 400, "max_iter": 1}
SPSA = {"delta": 0.001, "lr": 0.0001, "nb_iter": 5, "nb_sample": 100}
CONTESTS = (
  QueryContest("nes", {"queries": 1006}, (8, 64), draws=Draws(normal, 0.5)),
  QueryContest("spsa", {"queries": 1006}, (8, 64), "torchattacks-spsa", SPSA, draws=Draws(signs, 0.5)),
  QueryContest("square", {"queries": 256}, (128, 512), "torchattacks-square", {"n_queries": 256}, 128),
  QueryContest("square", {"queries": 256}, (128, 512), "art-square", {"max_iter": 256}, 128),
  QueryContest("simba", {"queries": 256}, (128, 512), "art-simba", {"max_iter": 25, "epsilon": 0.01}, 8),
  QueryContest("boundary", {"queries": 256}, (128, 512), "foolbox-boundary", {"steps": 180}, 4, NOISE, None),
  QueryContest("hopskipjump", {"queries": 256}, (128, 512), "foolbox-hopskipjump", {"steps": 1}, 4, NOISE, None),
  QueryContest("sign-opt", {"queries": 256}, (128, 512), "art-sign-opt", SIGN_OPT, 4, NOISE, None),
)


def run(peer_python: str = "", only: str = "", repeats: int = 2) -> Iterator[Row]:
  """Runs all contests on all networks, or those whose title contains `only`; each row as it ends."""
  titles = chosen(dict.fromkeys(f"{network} {contest.name}" for network in NETWORKS for contest in CONTESTS), only)
  folder = data_folder()
  if folder is None:
    raise InputError("bench queries needs real networks: set JAXROBUST_DATA to their folder")
  with Peers(peer_python, folder, WORKER) as peers:
    for number, network in enumerate(NETWORKS):
      contests = [contest for contest in CONTESTS if f"{network} {contest.name}" in titles]
      if not contests:
        continue
      work = _right(network, max(max(BATCHES), *(contest.n[number] for contest in contests)))
      yield _bound(work)
      for contest in contests:
        yield from _compete(contest, network, work, contest.n[number], peers, repeats)


def _right(network: str, count: int) -> Workload:
  """Returns images that the network has right: the others are not attacked, and their number would be part of times."""
  work = workload(network, 2 * count)
  right = np.flatnonzero(np.argmax(bare_logits(work.classifier, work.images), 1) == work.labels)[:count]
  return work._replace(images=work.images[right], labels=work.labels[right])


def _bound(work: Workload) -> Row:
  """Measures how much cheaper a forward pass is in a batch: what a loop over images loses at the least."""
  times = bare_forward(work, (1, *BATCHES))
  most = max(times)
  return Row(f"{work.name}, a forward pass at batch 1 over one at batch {most}", times[1] / times[most], "times")


def _compete(
  contest: QueryContest, network: str, work: Workload, count: int, peers: Any, repeats: int
) -> Iterator[Row]:
  attack = make_attack(contest.name, **contest.options)
  eps = None if contest.eps is None else Budget.parse(contest.eps).value

  def ours() -> AttackResult:
    return attack_images(attack, work.classifier, work.images[:count], work.labels[:count], eps=eps)

  ours()  # Compiles.
  best, theirs, reply, efficiency, with_draws = 0.0, 0.0, {}, 0.0, 0.0
  for _ in range(repeats):
    before, drawn = min(bare_forward(work).values()), _draw_cost(contest.draws, work)
    start = time.perf_counter()
    result = ours()
    seconds = time.perf_counter() - start
    best = max(best, result.stats.forwards / seconds)
    passes = result.stats.forwards + result.stats.judged
    needed = passes * (before + min(bare_forward(work).values())) / 2
    efficiency = max(efficiency, needed / seconds)
    with_draws = max(with_draws, (needed + drawn * result.stats.forwards) / seconds)
    if contest.peer:
      options = {"attack": contest.peer, "options": contest.peer_options, "eps": eps}
      reply = peers.ask(network=network, n=contest.peer_n, **options)
      theirs = max(theirs, reply["queries"] / reply["seconds"] if "queries" in reply else 0.0)
  stats = result.stats
  useful = stats.useful_steps / stats.slot_steps
  peer = reply.get("peer", f"{contest.peer}: {reply.get('missing')}" if contest.peer else None)
  ratio = best / theirs if theirs else None
  name = f"{work.name}, {contest.name}"
  yield Row(name, best, "queries/s", peer, reply.get("version"), ratio, efficiency, useful)
  if contest.draws is not None:
    yield Row(f"{name}, efficiency of passes and draws", with_draws, "fraction")
  size = default_size(attack, work)
  # Of the slots it begins with; with those of its tail, which are fewer, it would be less.
  dispatches = stats.dispatches * min(size, count) / (stats.slot_steps * attack.cost.forward)
  yield Row(f"{name}, dispatches for 32 queries of an image", 32 * dispatches, "at most")
  yield Row(f"{name}, memory of a dispatch of {size} slots", dispatch_bytes(attack, work, size) / MEGABYTE, "MB")
  if attack.cost.parallel > 1:
    yield Row(f"{name}, memory of {MANY} slots", dispatch_bytes(attack, work, MANY) / MEGABYTE, "MB")


def _draw_cost(draws: Draws | None, work: Workload, rows: int = 128) -> float:
  """Returns the seconds of the random numbers that a query takes, on as many devices as there are."""
  if draws is None:
    return 0.0
  shape = work.images.shape[1:]
  draw = jax.jit(jax.vmap(lambda number: draws.function(jax.random.fold_in(jax.random.key(0), number), shape)))
  _, numbers = spread((), jnp.arange(rows))
  jax.block_until_ready(draw(numbers))
  return typical(functools.partial(draw, numbers)) / rows * draws.each


def default_size(attack: Attack, work: Workload) -> int:
  """Returns the slots of an attack, over all devices, where nobody asks for another number."""
  return group_size(EngineOptions.for_platform(), work.images.shape[1:], len(work.images), attack.cost.parallel)[0]


def dispatch_bytes(attack: Attack, work: Workload, slots: int) -> int:
  """Returns the bytes that a dispatch of so many slots takes, over all devices, by the compiler's count."""
  options = EngineOptions.for_platform()
  program, arrays = Program.of(
    attack, samples=1, verdict_samples=1, steps=options.steps_of(attack), mesh=options.devices
  )
  size = program_bytes(program, work.classifier, arrays, slots, work.images.shape[1:])
  return size * options.devices.size
