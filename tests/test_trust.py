"""What can run code and what never does is written down, where people look for it."""

import re
import sys
from pathlib import Path

import pytest

from tests.cli.calling import call

ROOT = Path(__file__).parents[1]


def paragraph(name, beginning):
  """A paragraph, list entry or section of a document, in one line."""
  parts = re.split(r"\n\n|\n(?=[*#])", (ROOT / name).read_text())
  return next(" ".join(part.split()) for part in parts if part.strip().startswith(beginning))


@pytest.mark.smoke
def test_the_readme_says_that_configs_are_code_and_weights_are_not():
  text = paragraph("README.md", "**Trust.**")
  assert "--config FILE.py" in text and "are code" in text and "execute nothing" in text and "SECURITY.md" in text


def test_security_names_what_executes_code_and_what_never_does():
  for beginning, words in (
    ("* **Config files**", ("--config FILE.py", "imported")),
    ("* **The compilation cache**", ("JAXROBUST_CACHE", "700")),
    ("* **Your own functions**", ()),
    ("* **SQL with", ("--files=true",)),
    ("* **Weights**", (".pth", "nothing is imported")),
    ("* **Cells**", ()),
    ("* **SQL** without", ("no files",)),
  ):
    assert all(word in paragraph("SECURITY.md", beginning) for word in words), beginning


def test_a_config_runs_as_security_says(tmp_path):
  config = tmp_path / "config.py"
  config.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\nraise ValueError('no config')\n")
  assert call("evaluate", "--config", config)[0] == 2 and (tmp_path / "ran").exists()
  assert "config" not in sys.modules
