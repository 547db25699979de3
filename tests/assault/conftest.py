"""How much is tried, and the table of what came of it.

The numbers are small by default; the full assault is
`ASSAULT_INPUTS=1000 ASSAULT_KILLS=100 ASSAULT_SIGNALS=100 ASSAULT_IMAGES=10000 bash launch/test.sh assault`.
Its parts can be run one by one (`… assault -k "kill and transfer"`). With `ASSAULT_TABLE=FILE` their rows are kept
there, the table is that of all, and kills and signals go on with the counts that an assault was broken off at.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.report.conftest import browser as browser

_ROWS: dict[str, list] = {}


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


def kept_rows() -> dict[str, list]:
  """The rows of this run, and of earlier ones where they are kept."""
  path = Path(os.environ.get("ASSAULT_TABLE", os.devnull))
  earlier = json.loads(path.read_text() or "{}") if path.exists() else {}
  return {**earlier, **_ROWS}


@pytest.fixture
def record():
  """Writes a row of the table: what was tried, how often, what came of it, and what it takes to go on from there."""

  def write(what: str, tried: int, outcome: str, state: Sequence[int] | None = None) -> None:
    _ROWS[what] = [tried, outcome, state]
    # At once: what comes after may be broken off.
    Path(os.environ.get("ASSAULT_TABLE", os.devnull)).write_text(json.dumps(kept_rows(), indent=2) + "\n")

  return write


def pytest_terminal_summary(terminalreporter):
  if not _ROWS:
    return
  rows = kept_rows()
  width = max(map(len, rows))
  terminalreporter.write_line("")
  terminalreporter.write_line(f"{'assault':<{width}}  tried  outcome")
  for what, (tried, outcome, *_) in rows.items():
    terminalreporter.write_line(f"{what:<{width}}  {tried:>5}  {outcome}")
