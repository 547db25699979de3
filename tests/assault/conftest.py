"""How much is tried, and the table of what came of it.

The numbers are small by default; the full assault is
`ASSAULT_INPUTS=1000 ASSAULT_KILLS=100 ASSAULT_SIGNALS=100 ASSAULT_IMAGES=10000 bash launch/test.sh assault`.
"""

from __future__ import annotations

import os

import pytest

from tests.report.conftest import browser as browser

_ROWS: list[tuple[str, int, str]] = []


def count(name: str, default: int) -> int:
  """How often something is tried: $ASSAULT_NAME."""
  return int(os.environ.get(f"ASSAULT_{name}", default))


SEED = count("SEED", 0)


def pytest_collection_modifyitems(config, items):
  """Marks everything here, and leaves it out where it was not asked for."""
  for item in items:
    if "tests/assault/" in item.nodeid or item.path.parent.name == "assault":
      item.add_marker(pytest.mark.assault)
      if "assault" not in (config.getoption("-m") or ""):
        item.add_marker(pytest.mark.skip(reason="bash launch/test.sh assault runs it"))


@pytest.fixture
def record():
  """Adds a row to the table: what was tried, how often, and what came of it."""
  return lambda what, tried, outcome: _ROWS.append((what, tried, outcome))


def pytest_terminal_summary(terminalreporter):
  if not _ROWS:
    return
  width = max(len(row[0]) for row in _ROWS)
  terminalreporter.write_line("")
  terminalreporter.write_line(f"{'assault':<{width}}  tried  outcome")
  for what, tried, outcome in _ROWS:
    terminalreporter.write_line(f"{what:<{width}}  {tried:>5}  {outcome}")
