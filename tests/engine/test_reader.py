"""Reading ahead on a thread."""

from __future__ import annotations

import numpy as np
import pytest

from jaxrobust.engine.api import ExampleArrays
from jaxrobust.engine.reader import Reader


class Failing(ExampleArrays):
  """A source that cannot be read at first."""

  failures: list

  def take(self, positions):
    if self.failures and positions[0] == 4:
      raise self.failures.pop()
    return super().take(positions)


def test_what_could_not_be_read_keeps_its_place():
  source = Failing(np.arange(10), np.zeros((10, 2, 2, 3), np.float32), np.zeros(10, int), np.full(10, -1))
  Failing.failures = [OSError("no disk")]
  reader = Reader(source, 4, 3)
  assert reader.take()[0].tolist() == [0, 1, 2, 3]
  with pytest.raises(OSError, match="no disk"):
    reader.take()
  assert reader.position == 4
  positions, rows = reader.take()
  assert positions.tolist() == rows.ids.tolist() == [4, 5, 6, 7]
  reader.close()
