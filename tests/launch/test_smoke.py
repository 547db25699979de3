"""The smoke set has tests of every room."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
pytestmark = pytest.mark.smoke


ROOMS = sorted(path.name for path in TESTS.iterdir() if (path / "__init__.py").exists() and path.name != "assault")


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_smoke_tests(room):
  assert any("mark.smoke" in path.read_text() for path in (TESTS / room).rglob("test_*.py"))
