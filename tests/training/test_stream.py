"""The order of examples, and what is handed to the devices."""

from __future__ import annotations

import io
import shutil
import threading
from itertools import islice

import numpy as np
import pytest
from PIL import Image

from jaxrobust.bench.train import input_rows
from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.core.mesh import fitting_mesh
from jaxrobust.data.encoded import EncodedSource
from jaxrobust.data.registry import load_data
from jaxrobust.data.source import ArraySource
from jaxrobust.data.subsets import pinned
from jaxrobust.training import stream
from jaxrobust.training.config import TrainConfig
from jaxrobust.training.loop import train
from jaxrobust.training.stream import Mixture, Stream, batch_ids, split_ids, stream_ids
from tests.training.runs import curve

LEVELS = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), np.uint8)
LABELS = np.arange(12) % 3
BYTES = ArraySource("bytes", LEVELS, LABELS, 3)
FLOATS = ArraySource("floats", LEVELS.astype(np.float32) / np.float32(255), LABELS, 3)


class Pictures:
  """A store of the same images as files; some may be broken."""

  def __init__(self, *broken: int):
    self.names, self.broken = [str(i) for i in range(len(LEVELS))], broken

  def read(self, name: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(LEVELS[int(name)]).save(file, "PNG")
    return file.getvalue()[: 10 if int(name) in self.broken else None]

  def hashes(self, names: list[str]) -> dict[str, str]:
    return {name: name for name in names}


def encoded(*broken: int) -> EncodedSource:
  store = Pictures(*broken)
  return EncodedSource("encoded", store, store.names, LABELS, 3, "none")


SOURCES = {
  "bytes": (BYTES, np.uint8),
  "floats": (FLOATS, np.float32),
  "encoded": (encoded(), np.uint8),
  "part": (pinned(encoded(), 10), np.uint8),
  "part of floats": (pinned(FLOATS, 10), np.float32),
  "bytes and encoded": (Mixture(BYTES, encoded(), 1), np.uint8),
  "encoded and floats": (Mixture(encoded(), FLOATS, 1), np.float32),
}


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_stored_in_bytes_is_sent_in_bytes(name):
  data, dtype = SOURCES[name]
  reader = Stream(data, len(data), 4, 5, fitting_mesh(4), start_step=2)
  try:
    for step, rows in enumerate(islice(reader, 7), start=2):
      ids = batch_ids(data, len(data), 5, step, 4)
      images, labels = data.take(ids)
      found = np.asarray(rows.images)
      assert found.dtype == dtype
      np.testing.assert_array_equal(found / np.float32(255) if dtype == np.uint8 else found, images)
      np.testing.assert_array_equal(rows.labels, labels)
      np.testing.assert_array_equal(rows.ids, ids)
  finally:
    reader.close()


def test_an_epoch_is_permuted_once_and_nobody_can_write_to_it():
  stream._order.cache_clear()
  plain = np.concatenate([np.random.default_rng((9, epoch)).permutation(50) for epoch in range(4)])
  for start in range(0, 196, 4):
    ids = stream_ids(50, 9, start, 4)
    np.testing.assert_array_equal(ids, plain[start : start + 4])
    ids[:] = 0
  assert stream._order.cache_info().misses == 4


def test_an_error_comes_with_its_batch_and_the_stream_can_be_closed():
  order = stream_ids(12, 5, 0, 12)
  reader = Stream(encoded(int(order[5])), 12, 4, 5, fitting_mesh(4))
  batches = iter(reader)
  np.testing.assert_array_equal(next(batches).ids, order[:4])
  with pytest.raises(CorruptFileError, match=f"example {order[5]} "):
    next(batches)
  reader.close()


def test_two_batches_are_read_at_once():
  """While one is put together and sent, the next is decoded."""
  together = threading.Barrier(2, timeout=20)

  class Waiting(ArraySource):
    def raw(self, ids):
      together.wait()
      return super().raw(ids)

  reader = Stream(Waiting("waiting", LEVELS, LABELS, 3), 12, 4, 5, fitting_mesh(4))
  found = np.concatenate([rows.ids for rows in islice(reader, 4)])
  together.abort()
  reader.close()
  np.testing.assert_array_equal(found, stream_ids(12, 5, 0, 16))


def test_the_bench_measures_the_input_from_files():
  rows = input_rows(count=4, repeats=1)
  assert [row.unit for row in rows] == ["images/s"] * 2 and all(row.value > 1 for row in rows)
  assert rows[1].name == "input from JPEG files of 500x375, one core"


def test_examples_are_held_out_from_all_over_the_set():
  sorted_by_class = np.repeat(np.arange(4), 25)
  training, held = split_ids(100, 80)
  assert sorted([*training, *held]) == list(range(100))
  assert np.bincount(sorted_by_class[held], minlength=4).min() > 0
  data = ArraySource("sorted", np.zeros((100, 8, 8, 3), np.uint8), sorted_by_class, 4)
  seen = np.concatenate([batch_ids(data, 80, 5, step, 16) for step in range(5)])
  assert sorted(seen) == sorted(training)


@pytest.mark.parametrize("size, batch", [(10, 3), (7, 7), (5, 13)])
def test_the_stream_sees_every_example_once_per_epoch(size, batch):
  ids = np.concatenate([stream_ids(size, 1, start, batch) for start in range(0, 6 * size, batch)])
  for epoch in range(5):
    assert sorted(ids[epoch * size : (epoch + 1) * size]) == list(range(size))


def mixture(rows: int = 16) -> Mixture:
  data, extra = load_data("digits32-train"), load_data("digits32")
  assert isinstance(data, ArraySource) and isinstance(extra, ArraySource)
  as_bytes = ArraySource("extra", np.round(extra.images * 255).astype(np.uint8), extra.labels, 10)
  return Mixture(data, as_bytes, rows)


def test_every_batch_has_its_part_of_extra_examples_in_a_repeatable_order():
  data = mixture()
  batches = [batch_ids(data, len(data), 3, step, 64) for step in range(40)]
  for ids in batches:
    assert (ids[:48] < len(data)).all() and (ids[48:] >= len(data)).all()
  extra = np.concatenate([ids[48:] for ids in batches])[:500]
  assert sorted(extra - len(data)) == list(range(500)), "each once before any comes again"
  np.testing.assert_array_equal(batches[7], batch_ids(data, len(data), 3, 7, 64))
  images, labels = data.raw(batches[0])
  np.testing.assert_allclose(images[48:], data.extra.take(batches[0][48:] - len(data))[0])
  np.testing.assert_array_equal(labels[:48], data.source.labels[batches[0][:48]])


def test_a_run_with_extra_data_continues_exactly(tmp_path):
  config = TrainConfig(
    epochs=1, batch_size=128, log_every=1, extra_data="digits32", extra_part=0.25, save_every=3, techniques=("flip",)
  )
  train(config, tmp_path / "whole", quiet=True)
  train(config, tmp_path / "net", quiet=True)
  (tmp_path / "net" / "classifier.json").unlink()
  steps = [int(path.name) for path in (tmp_path / "net" / "checkpoints").iterdir() if path.name.isdigit()]
  shutil.rmtree(tmp_path / "net" / "checkpoints" / str(max(steps)))
  train(config, tmp_path / "net", quiet=True)
  assert curve(tmp_path / "net") == curve(tmp_path / "whole")
  assert "extra_data" not in TrainConfig().identity() and config.identity()["extra_part"] == 0.25


@pytest.mark.parametrize("options", [{"extra_part": 0.5}, {"extra_data": "digits32"}, {"extra_part": -0.1}])
def test_extra_data_and_its_part_come_together(options):
  with pytest.raises(InputError, match="extra_part"):
    TrainConfig(**options)
