"""The frames of sequences as the engine reads them."""

from __future__ import annotations

import numpy as np

from jaxrobust.data.registry import load_data
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.kinds import make_job
from jaxrobust.evaluation.sequence_job import SequenceRun
from jaxrobust.evaluation.sequences import PerturbedSource, sequence_source
from jaxrobust.evaluation.suites import clean_entry
from tests.evaluation.digits_model import digits_classifier


def test_labels_are_read_with_their_frames_and_not_all_images_at_once(tmp_path, monkeypatch):
  data = sequence_source(load_data("digits32").subset(40), "tilt", 32, 0)
  taken, plain = [], PerturbedSource.take
  monkeypatch.setattr(PerturbedSource, "take", lambda self, ids: taken.append(len(ids)) or plain(self, ids))
  job = make_job(digits_classifier(1), "m", data, clean_entry(), tmp_path, RunOptions())
  run = SequenceRun(job, np.arange(40))
  assert max(taken) == 1
  rows = run.frames.take(np.arange(35 * run.frames.count, 37 * run.frames.count))
  np.testing.assert_array_equal(rows.labels, np.repeat(data.take(np.array([35, 36]))[1], run.frames.count))
  run.engine.reader.close()
