"""The published robustness data set, for the tests that compare against its numbers."""

import functools

import pytest

from jaxrobust.nas.table import Table, load_table
from tests import realdata

NAS201 = realdata.ROOT / "published" / "nas201"

needs_table = pytest.mark.skipif(
  not (NAS201 / "meta.json").exists(), reason="published/nas201 not found; set JAXROBUST_DATA to the folder it is in"
)


@functools.cache
def cifar10() -> Table:
  return load_table(NAS201, "cifar10")
