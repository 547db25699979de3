"""Decision attacks against other implementations on a real network: median distances at equal queries."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

from jaxrobust.attacks.registry import make_attack
from jaxrobust.engine.api import attack_images
from jaxrobust.engine.options import EngineOptions
from tests import realdata

PEERS = json.loads((pathlib.Path(__file__).parents[1] / "golden" / "decision_peers.json").read_text())
# Distances that are looked for in the course of a run; neighbors are 2 % apart.
GRID = tuple(float(eps) for eps in np.geomspace(0.05, 20.0, 301))


def at_counts(result, counts):
  """The smallest budget of the grid within which each image was broken after each number of queries."""
  reached = np.where(result.reached_query < 0, np.inf, result.reached_query)
  within = reached[:, None, :] <= np.array(counts)[:, None]
  return np.where(within, np.array(GRID), np.inf).min(2)


@realdata.needs_data
@pytest.mark.slow
@pytest.mark.parametrize("name", PEERS["distances"])
def test_comes_as_close_as_the_peers_with_as_many_queries(name):
  rows, counts = np.array(PEERS["images"]), PEERS["queries"]
  theirs = np.array([[np.inf if one is None else one for one in row] for row in PEERS["distances"][name]])
  images, labels = realdata.cifar10_test(500)
  result = attack_images(
    make_attack(name, queries=counts[-1]),
    realdata.cifar10_network(PEERS["network"]),
    images[rows],
    labels[rows],
    ids=rows,
    budgets=GRID,
    starts=(images, labels),
    options=EngineOptions.for_platform(len(rows), shrink=False),
  )
  assert result.correct.all() and result.success.all() and (result.queries <= counts[-1]).all()
  print(name, counts, np.median(at_counts(result, counts), 0), np.median(result.distance), np.median(theirs, 0))
  assert np.median(result.distance) <= 1.02 * np.median(theirs[:, -1])
