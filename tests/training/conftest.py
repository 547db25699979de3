"""A run that the tests of stopped, killed and spread ones compare with."""

from pathlib import Path

import pytest

from tests.training.runs import finish, start


@pytest.fixture(scope="session")
def whole(tmp_path_factory) -> Path:
  """A run that nothing happened to."""
  out = tmp_path_factory.mktemp("whole") / "net"
  finish(start(out))
  return out
