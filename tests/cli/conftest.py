"""A finished run that the tests of several commands look at."""

import pytest

from tests.cli.calling import TINY, call


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
  """One end-to-end run: two networks trained for an epoch, three cells each."""
  folder = tmp_path_factory.mktemp("cli") / "run"
  code, out, err = call("run", "--config", TINY, "--out", folder, "--quiet")
  assert code == 0, err
  return folder, out
