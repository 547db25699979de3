"""The attacks of the guide, for tests: its snippets without the checks that they end with."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from types import SimpleNamespace

GUIDE = Path(__file__).parents[1] / "jaxrobust" / "docs" / "write_an_attack.md"


@functools.cache
def guide_attacks() -> SimpleNamespace:
  """Returns what the snippets that define attacks define, by name."""
  scope: dict[str, object] = {"__name__": __name__}
  for number, code in enumerate(re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S)):
    if "class " in code:
      exec(compile(re.sub(r"^jr\.testing.*$", "", code, flags=re.M), f"{GUIDE.name}, snippet {number}", "exec"), scope)
  return SimpleNamespace(**scope)
