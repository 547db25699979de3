"""How much is tried, and the table of what came of it.

The numbers are small by default; the full assault is
`ASSAULT_INPUTS=1000 ASSAULT_KILLS=100 ASSAULT_SIGNALS=100 ASSAULT_IMAGES=10000 bash launch/test.sh assault`.
Its parts can be run one by one (`… assault -k "kill and transfer"`); with `ASSAULT_TABLE=FILE` their rows are kept
there, the last one of each part, and the table is that of all.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

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

  def add(what: str, tried: int, outcome: str) -> None:
    _ROWS.append((what, tried, outcome))
    _table()  # Kept at once: what comes after may be broken off.

  return add


def _table() -> dict[str, tuple[int, str]]:
  """The rows of this run, and of earlier ones where they are kept."""
  kept = Path(os.environ.get("ASSAULT_TABLE", os.devnull))
  rows = json.loads(kept.read_text() or "{}") if kept.exists() else {}
  rows |= {what: (tried, outcome) for what, tried, outcome in _ROWS}
  kept.write_text(json.dumps(rows, indent=2) + "\n")
  return rows


def pytest_terminal_summary(terminalreporter):
  if not _ROWS:
    return
  rows = _table()
  width = max(map(len, rows))
  terminalreporter.write_line("")
  terminalreporter.write_line(f"{'assault':<{width}}  tried  outcome")
  for what, (tried, outcome) in rows.items():
    terminalreporter.write_line(f"{what:<{width}}  {tried:>5}  {outcome}")
