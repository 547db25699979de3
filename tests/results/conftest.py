"""One small result that every test of this room can change."""

import dataclasses

import numpy as np
import pytest

from jaxrobust.results.cell import Cell, Result


@pytest.fixture
def result() -> Result:
  examples = {
    "robust": np.array([True, False, True, True, False]),
    "queries": np.array([20, 3, 20, 20, 1], np.int32),
    "distance": np.array([0, 0.03, 0, np.nan, 0.01], np.float32),
  }
  return Result(
    cell=Cell(model="cnn", data="digits32", attack="linf-pgd-20", eps="8/255", n=5),
    config={"attack": {"name": "pgd", "num_steps": 20, "alpha": 0.1}, "model": "ab12", "stages": [{"k": 1}]},
    summary={"robust": 3, "n": 5},
    examples=examples,
    provenance={"jax": "0.9", "platform": "cpu"},
    findings=[{"kind": "nan-distance", "count": 1}],
  )


@pytest.fixture
def shards(result):
  """Splits `result` into two shards of interleaved examples."""
  indices = [np.array([4, 0, 2], np.int32), np.array([1, 3], np.int32)]
  return [
    dataclasses.replace(result, summary={}, examples={"index": i} | {name: a[i] for name, a in result.examples.items()})
    for i in indices
  ]
