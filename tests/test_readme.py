"""The README's attack works as printed, and the names it shows exist."""

from __future__ import annotations

import contextlib
import io
import re
import tomllib
from pathlib import Path

import jaxrobust as jr
from jaxrobust.training.technique import TECHNIQUES

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_custom_attack_is_short_and_passes_the_checks():
  (code,) = [block for block in re.findall(r"```python\n(.*?)```", README, re.S) if "class RandomSearch" in block]
  attack_lines = code[code.index("@dataclasses") : code.index("jr.testing")].strip().splitlines()
  assert len(attack_lines) <= 25
  exec(compile(code, "README.md", "exec"), {})


def test_every_public_name_in_the_readme_exists():
  for name in set(re.findall(r"\bjr\.(\w+)", README)):
    assert hasattr(jr, name), name


def test_readme_opens_with_what_it_is_how_to_get_it_a_result_and_the_two_commands():
  opening = README[:3600]
  order = [
    "![The leaderboard",
    "pip install jaxrobust",
    "jr.evaluate",
    "Report(",
    "| PGD-40",
    "launch/local.sh",
    "launch/test.sh",
  ]
  places = [opening.index(text) for text in order]
  assert places == sorted(places)


def test_the_first_evaluation_prints_what_the_readme_says():
  code = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.S)
  with contextlib.redirect_stdout(io.StringIO()) as shown:
    exec(compile(code[1], "README.md", "exec"), {})
  assert shown.getvalue().split() == code[2].split()


def test_badges_are_true():
  with (Path(__file__).parents[1] / "pyproject.toml").open("rb") as file:
    project = tomllib.load(file)["project"]
  badges = dict(re.findall(r"^\[!\[[^]]*\]\([^)]*/badge/(\w+)-(.*)-blue\)\]\(", README, re.MULTILINE))
  assert badges == {
    "python": project["requires-python"].removeprefix(">=") + "+",
    "license": project["license"].replace("-", "--"),
    "types": "mypy%20%7C%20pyright",
  }


def test_every_technique_is_in_the_table():
  rows = re.findall(r"^\| `([^|]*)` \|", README, flags=re.MULTILINE)
  assert set(TECHNIQUES) <= {name for row in rows for name in row.split()}
