"""A folder of data sets that the tests fill."""

import pytest


@pytest.fixture
def root(tmp_path, monkeypatch):
  monkeypatch.setenv("JAXROBUST_DATASETS", str(tmp_path))
  return tmp_path
