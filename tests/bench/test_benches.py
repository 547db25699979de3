"""Every bench makes its rows from tiny inputs: names, units, ratios against peers that are there and that are not."""

from __future__ import annotations

import json
import math

import jax
import numpy as np
import pytest

from jaxrobust import testing
from jaxrobust.bench import (
  attacks,
  cascades,
  corruptions,
  engine,
  models,
  nas,
  queries,
  rows,
  suite,
  techniques,
  threats,
  train,
)
from jaxrobust.bench.bare import BareCost, bare_cost, between
from jaxrobust.bench.peers import Peers
from jaxrobust.bench.workloads import Workload
from jaxrobust.cli.bench import BENCHES, print_rows
from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.engine.api import attack_images
from jaxrobust.engine.example import EngineStats

EPS = 0.01
REPLY = {"peer": "theirs", "version": "1.0", "seconds": 2.0, "robust": 0.5, "median": 0.1}


class Peer:
  """Stands in for another library: answers at once."""

  def __init__(self, reply):
    self.reply, self.asked = reply, []

  def __enter__(self):
    return self

  def __exit__(self, *_):
    pass

  def ask(self, **job):
    self.asked.append(job)
    return self.reply


PEERS = pytest.mark.parametrize(
  "peer", [Peer(REPLY), Peer({"missing": "No module named 'torch'"})], ids=["there", "not"]
)


@pytest.fixture(scope="module")
def work() -> Workload:
  classifier = testing.fixture()
  return Workload("tiny", classifier, *testing.examples(classifier, 16))


def check(found, unit="images/s"):
  """Rows that the table and JSON can hold."""
  found = list(found)
  assert found and all(math.isfinite(row.value) and row.value >= 0 for row in found) and found[0].unit == unit
  assert [json.loads(json.dumps(row.as_dict())) for row in found] == [row.as_dict() for row in found]
  print_rows(found)
  return {row.name: row for row in found}


def test_fixed_batches_give_the_flags_of_the_engine(work):
  budgets = np.full(16, EPS)
  fixed = engine.fixed_batches(engine.ATTACK, work, budgets, batch=8)
  slots = attack_images(engine.ATTACK, work.classifier, work.images, work.labels, eps=EPS, batch_size=8)
  assert fixed.tolist() == slots.robust.tolist() and 0 < fixed.sum() < 16
  assert engine.fixed_batches(engine.ATTACK, work, np.where(np.arange(16) < 8, 0, 1.0), batch=8).sum() == 8


def test_the_time_of_the_host_is_what_waiting_leaves():
  seconds, stats = engine.host_time(slots=16, count=32)
  assert 0 < seconds < 1 and stats.dispatches > 0 and stats.useful_steps <= stats.slot_steps


def test_bench_engine(work, monkeypatch):
  monkeypatch.setattr(engine, "workload", lambda network, n: work)
  monkeypatch.setattr(engine, "host_time", lambda: (0.002, EngineStats()))
  monkeypatch.setattr(engine, "ATTACK", engine.PGD(num_steps=2))
  monkeypatch.setattr(engine, "make_attack", lambda name: engine.PGD(num_steps=3))
  monkeypatch.setattr(engine, "data_folder", lambda: None)  # The robust network takes no images of 6 pixels.
  found = check(engine.run(n=16, repeats=1))
  assert found["tiny, linf-pgd-20@8/255, equal flags"].value == 1.0
  assert found["tiny, linf-pgd-20@0.5/255"].peer == "fixed batches" and found["tiny, linf-pgd-20@0.5/255"].ratio > 0
  assert next(row for name, row in found.items() if name.startswith("host time")).value == 2.0
  assert all(0 < row.useful <= 1 for row in found.values() if row.useful is not None)


@PEERS
@pytest.mark.parametrize(("eps", "name"), [("0.01", "pgd"), (None, "ddn")])
def test_bench_attacks(work, peer, eps, name):
  contest = attacks.Contest("tiny", eps, name, {"num_steps": 3}, 16, "theirs", 8, 3, 1, 8)
  found = check(attacks._compete(contest, work, peer, None, 1))
  first = next(iter(found.values()))
  there = "missing" not in peer.reply
  assert len(found) == (3 if there else 1) and (first.ratio is not None) == there
  assert peer.asked[-1]["eps"] == (None if eps is None else EPS) and ("torch" in first.peer) != there


def test_bench_attacks_searches_for_budgets_and_needs_real_networks(work, monkeypatch):
  monkeypatch.setattr(attacks, "_bisection", lambda attack, work: np.full(len(work.images), 0.01))
  found = check(attacks._minimum_budget(work, 8, 1))
  assert len(found) > 1
  monkeypatch.setattr(attacks, "data_folder", lambda: None)
  with pytest.raises(InputError, match="JAXROBUST_DATA"):
    next(attacks.run())


@pytest.mark.ci
@PEERS
def test_bench_threats(work, peer, monkeypatch):
  there = "missing" not in peer.reply
  found = list(threats._compete(threats.ThreatContest("stadv", "0.05", 2, 1), work, peer, 1))
  check(found)
  assert len(found) == (3 if there else 1) and (found[0].ratio is not None) == there
  assert found[0].efficiency > 0 and peer.asked[-1]["attack"] == "stadv" and peer.asked[-1]["eps"] == 0.05
  monkeypatch.setattr(threats, "data_folder", lambda: None)
  with pytest.raises(InputError, match="JAXROBUST_DATA"):
    next(threats.run())


@PEERS
def test_bench_queries(work, peer):
  reply = {**peer.reply, "queries": 100} if "peer" in peer.reply else peer.reply
  options = {"queries": 40, "pairs": 4}
  contest = queries.QueryContest("nes", options, (16,), "theirs", {"steps": 1}, 3, queries.CONTESTS[0].draws, "0.01")
  asked = Peer(reply)
  found = check(queries._compete(contest, "tiny", work, 16, asked, 1), "queries/s")
  first = found["tiny, nes"]
  assert first.efficiency > 0 and 0 < first.useful <= 1 and (first.ratio is not None) == ("queries" in reply)
  assert first.ratio is None or first.ratio == pytest.approx(first.value / 50)
  assert asked.asked == [{"network": "tiny", "n": 3, "attack": "theirs", "options": {"steps": 1}, "eps": 0.01}]
  assert found["tiny, nes, efficiency of passes and draws"].value > first.efficiency
  assert 0 < found["tiny, nes, dispatches for 32 queries of an image"].value <= 32 / 9
  one, many = (row.value for name, row in found.items() if "memory" in name)
  assert 0 < one < many
  assert next(iter(check([queries._bound(work)], "times").values())).value > 0


def test_bench_cascades(work):
  found = check(cascades.compare(work, 8, "fgsm:bim,num_steps=4", "mm3", str(EPS)), "per image")
  assert {"tiny, fgsm:bim,num_steps=4 by yield, queries saved", f"tiny, mm3@{EPS}, robust accuracy"} <= set(found)
  orders = [found[f"tiny, fgsm:bim,num_steps=4{order}@{EPS}, robust accuracy"].value for order in ("", " by yield")]
  assert orders[0] == orders[1]


def test_bench_suite(work):
  (row,) = check([suite._compare(work, "clean", 1)], "fraction").values()
  assert "1 cells" in row.name and row.ratio == pytest.approx(1 / row.value)


@PEERS
def test_bench_models(peer):
  reply = {**peer.reply, "forward": 1.0, "gradient": 2.0} if "peer" in peer.reply else peer.reply
  found = check(models._compare("cnn-tiny", 2, Peer(reply), 1))
  assert sum(row.ratio is not None and row.peer == "theirs" for row in found.values()) == (2 if "peer" in reply else 0)


@pytest.mark.ci
def test_bench_techniques():
  (row,) = check(techniques.run("cnn-tiny", 4, 1, "pgd-at")).values()
  assert row.name == "cnn-tiny pgd-at" and row.efficiency > 0
  with pytest.raises(UnknownNameError, match="technique of this bench"):
    next(techniques.run(names="pgd-a"))


@pytest.mark.ci
def test_bench_nas():
  found = list(nas.run(cells=3, width=2, depth=1, n=8, batch_size=4, natives=1, repeats=1, only="input gradient"))
  assert [row.unit for row in found] == ["times native"] * 3 and 0 < found[1].value <= found[0].value <= found[2].value
  before = jax.config.jax_compilation_cache_dir
  found = list(nas.run(cells=3, width=2, depth=1, n=8, natives=1, only="fgsm"))
  first, others, rate, whole = found
  # The slots, the verdict and the clean pass; then nothing, where a network of its own compiles all again.
  assert others.value == 0 < first.value and rate.ratio > 2 and rate.value > whole.value > 0
  assert jax.config.jax_compilation_cache_dir == before


def test_every_technique_of_the_bench_can_be_made():
  for contestant in techniques.CONTESTANTS.values():
    techniques.make_plan(contestant.names, contestant.options)


@pytest.mark.ci
@PEERS
def test_bench_train(peer, monkeypatch):
  monkeypatch.setattr(train, "Peers", lambda python, folder: peer)
  monkeypatch.setattr(train, "input_rows", lambda count, repeats: [])
  found = check(train.run("cnn-tiny", 4, 1))
  assert found["cnn-tiny pgd-3 training step"].efficiency > 0
  assert (found["cnn-tiny pgd-3 training step"].ratio is not None) == ("seconds" in peer.reply)


@PEERS
def test_bench_corruptions(peer, tmp_path):
  images = corruptions._images(2, 32)
  found = check(corruptions._contest(["brightness"], images, tmp_path / "images.npy", peer, 1))
  assert list(found) == ["32px, brightness"] and found["32px, brightness"].value > 0
  assert (found["32px, brightness"].ratio is not None) == ("seconds" in peer.reply)


def test_the_bare_cost_of_what_a_run_evaluated(work):
  cost = bare_cost(work)
  assert cost.forward > 0 and cost.gradient > 0
  stats = EngineStats(forwards=10, backwards=4, judged=3)
  assert BareCost(1.0, 10.0).needed(stats) == 4 * 10 + 9
  assert between(BareCost(1.0, 2.0), BareCost(3.0, 6.0)) == (2.0, 4.0)


@pytest.mark.smoke
def test_contestants_take_turns():
  calls = []
  functions = {name: lambda name=name: calls.append(name) or len(calls) for name in "ab"}
  times, results = rows.alternate(functions, 2)
  assert calls == list("abab") and results == {"a": 3, "b": 4} and all(math.isfinite(time) for time in times.values())
  assert rows.seconds(functions["a"], 2) > 0 and rows.typical(functions["b"], 3) > 0
  with pytest.raises(InputError, match="nothing here contains 'x'"):
    rows.chosen(["a"], "x")


@pytest.mark.smoke
def test_peers_answer_or_say_why_not(tmp_path):
  worker = tmp_path / "worker.py"
  worker.write_text("import sys, json\nfor line in sys.stdin:\n  print('noise')\n  print(line, flush=True)\n")
  with Peers("", None, worker) as peers:
    assert [peers.ask(attack=name)["attack"] for name in ("a", "b")] == ["a", "b"]
  worker.write_text("raise ImportError('no such library')\n")
  with Peers("", None, worker) as peers:
    assert "no such library" in peers.ask(attack="a")["missing"]


@pytest.mark.smoke
def test_every_bench_of_the_command_is_there():
  found = {module.__name__.rpartition(".")[2]: module for module in (
    engine, attacks, threats, queries, train, techniques, models, suite, cascades, corruptions, nas
  )}  # fmt: skip
  assert found.keys() == BENCHES.keys() and all(callable(module.run) for module in found.values())
