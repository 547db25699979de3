"""The table of open examples, what is read into it, and what leaves it."""

from __future__ import annotations

import numpy as np
import pytest

from jaxrobust import testing
from jaxrobust.attacks.registry import make_attack
from jaxrobust.attacks.schedule import Cascade, Item
from jaxrobust.core.errors import InputError
from jaxrobust.engine.api import ExampleArrays
from jaxrobust.engine.example import Examples
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.scheduler import Engine
from jaxrobust.engine.starts import POOL, make_starts
from jaxrobust.engine.table import ExampleTable
from jaxrobust.engine.verdicts import VerdictArrays
from jaxrobust.evaluation.verdicts import cell_arrays, summarize


def some(count: int, first: int = 0) -> tuple[np.ndarray, Examples]:
  positions = np.arange(first, first + count)
  return positions, Examples(positions + 100, np.zeros((count, 2, 2, 3)), positions % 3, np.full(count, -1))


def test_rows_are_used_again_and_begin_blank():
  table = ExampleTable(classes=3, budgets=2, eps=0.1, tolerance=1e-7)
  rows = table.open(*some(5))
  table["queries"][rows], table["success"][rows] = 7, True
  table.begin(rows[:2], [Item(1, -1, 0.1, (2.0, 3.0)), Item(0, 2, 0.2)])
  assert table.items(rows[:2]) == [Item(1, -1, 0.1, (2.0, 3.0)), Item(0, 2, 0.2, ())]
  verdicts = table.close(rows[[3, 1]])
  assert verdicts["id"].tolist() == [103, 101] and verdicts["queries"].tolist() == [7, 7] and len(table.rows) == 3
  again = table.open(*some(2, first=5))
  assert set(again) == set(rows[[3, 1]]) and len(table.rows) == 5
  assert not set(table.open(*some(7, first=7))) & {*rows, *again} and len(table.rows) == 12
  assert (table["queries"][again] == 0).all() and (table["reached_query"][again] == -1).all()
  assert np.isinf(table["distance"][again]).all() and verdicts["queries"].tolist() == [7, 7], "a verdict is a copy"


def test_counts_beyond_32_bits():
  table = ExampleTable(classes=3, budgets=0, eps=0.1, tolerance=1e-7)
  rows = table.open(*some(2))
  table["queries"][rows] = 3 * 2**30, 5
  verdicts = VerdictArrays(2, 0.1)
  verdicts.record(table.close(rows))
  assert verdicts["queries"].tolist() == [3 * 2**30, 5]
  kept = cell_arrays(verdicts, minimal=False)
  assert kept["queries"].dtype == np.int32 and kept["queries"].tolist() == [2**31 - 1, 5]
  assert summarize({**kept, "queries": np.full(2, 2**31 - 1, np.int32)})["queries"] == 2**32 - 2


def test_a_source_of_bytes_and_floats():
  classifier = testing.fixture()
  levels = np.round(255 * testing.examples(classifier, 40)[0]).astype(np.uint8)
  floats = levels / np.float32(255)
  labels = np.asarray(classifier(floats)).argmax(1)

  class Mixed(ExampleArrays):
    def take(self, positions):
      rows = super().take(positions)
      return rows._replace(images=levels[positions]) if positions[0] % 16 else rows

  def outcomes(kind):
    source = kind(np.arange(40), floats, labels, np.full(40, -1))
    cascade, options = Cascade.restarts(make_attack("pgd", num_steps=4), 2), EngineOptions.for_platform(8)
    found = Engine(classifier, cascade, source, eps=0.015, options=options).run()
    return sorted((one.position, one.success, one.queries, one.distance) for one in found)

  assert outcomes(Mixed) == outcomes(ExampleArrays)


def test_starting_points_of_every_class_that_is_wanted():
  count = POOL + 90
  labels = np.where(np.arange(count) < POOL, np.arange(count) % 3, 3 + np.arange(count) % 3)
  images = np.arange(count, dtype=np.float32)[:, None, None, None]
  source = ExampleArrays(np.arange(count), images, labels, np.full(count, -1))
  read = []

  def predict(rows):
    read.append(len(rows.ids))
    return np.where(rows.labels == 4, 5, rows.labels)  # Class 4 is always called 5.

  narrow = make_starts(source, predict, 16, (0, 1, 2))
  assert len(narrow.images) == POOL and read == [POOL], "nothing more is read where nothing is missing"
  wide = make_starts(source, predict, 16, (0, 3, 5))
  assert read[1:] == [POOL, 16], "nor farther than the first of each"
  for target in (3, 5):
    chosen = int(wide.choose(0, 0, target)[0, 0, 0])
    assert chosen >= POOL and labels[chosen] == target
    assert chosen == make_starts(source, predict, 7, (target,)).choose(0, 0, target)[0, 0, 0], "whatever else is wanted"
  np.testing.assert_array_equal(wide.choose(3, 0, 1), narrow.choose(3, 0, 1))
  with pytest.raises(InputError, match="none of 590 images is classified as 4, 6, which are targets"):
    make_starts(source, predict, 16, range(7))
