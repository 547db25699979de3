"""The guides' snippets run as printed, and their commands take the options they show."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from jaxrobust.cli.main import COMMANDS, main
from tests import realdata

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "jaxrobust" / "docs"
GUIDES = sorted(DOCS.glob("*.md"))


def blocks(path: Path, kind: str) -> list[str]:
  return re.findall(rf"```{kind}\n(.*?)```", path.read_text(), re.S)


def test_there_is_a_guide_for_each_use():
  names = {path.stem for path in GUIDES}
  assert names >= {
    "attacks",
    "audited_autoattack",
    "cascades",
    "certificates",
    "coming_from",
    "command_line",
    "compile_for_pods",
    "data",
    "defenses",
    "evaluate_your_model",
    "glossary",
    "index",
    "install",
    "read_the_numbers",
    "reliability",
    "search_architectures",
    "train_on_a_pod",
    "training",
    "trends",
    "write_a_suite",
    "write_an_attack",
  }


@pytest.mark.parametrize("path", [*GUIDES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda path: path.stem)
def test_links_and_pictures_lead_somewhere(path):
  for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", path.read_text(), flags=re.S)):
    if not target.startswith(("http:", "https:", "#")):
      assert (path.parent / target.partition("#")[0]).exists(), f"{path.name} leads to {target}"


def test_every_guide_has_its_place_on_the_site():
  listed = re.findall(r": ([\w/]+\.(?:md|ipynb))$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
  there = {str(path.relative_to(DOCS)) for kind in ("*.md", "*/*.ipynb") for path in DOCS.glob(kind)}
  assert set(listed) == there and len(listed) == len(there)


@pytest.mark.ci
@pytest.mark.parametrize("path", sorted(DOCS.glob("notebooks/*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_run(path, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  scope: dict[str, object] = {}
  for number, cell in enumerate(json.loads(path.read_text())["cells"]):
    if cell["cell_type"] == "code":
      exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), scope)


# Whole searches and many attacks in their snippets.
LONG = ("defenses", "search_architectures", "write_a_suite", "attacks")


@pytest.mark.parametrize(
  "path", [pytest.param(p, id=p.stem, marks=pytest.mark.ci if p.stem in LONG else ()) for p in GUIDES]
)
def test_python_snippets_run(path, tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  scope: dict[str, object] = {}
  for number, code in enumerate(blocks(path, "python")):
    exec(compile(code, f"{path.name}, snippet {number}", "exec"), scope)


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_commands_and_their_options_exist(path):
  for line in "\n".join(blocks(path, "bash")).replace("\\\n", " ").splitlines():
    words = shlex.split(line, comments=True)
    if not words or words[0] != "jaxrobust":
      continue
    assert words[1] in COMMANDS, line
    module = importlib.import_module(f"jaxrobust.cli.{words[1]}")
    known = {**getattr(module, "DEFAULTS", {}), "config": ""}
    for word in words[2:]:
      if word.startswith("--") and known.keys() != {"config"}:
        assert word[2:].partition("=")[0].partition(".")[0] in known, f"{word} in {line}"


@realdata.needs_data
def test_a_published_checkpoint_in_two_commands(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  shutil.copy(realdata.ROOT / "weights" / "cifar10_resnet20.npz", tmp_path)
  shutil.copy(realdata.ROOT / "cifar10_test.npz", tmp_path)
  guide = next(path for path in GUIDES if path.stem == "evaluate_your_model")
  convert, evaluate = (shlex.split(line)[1:] for line in blocks(guide, "bash")[0].strip().splitlines())
  assert main(convert) == 0
  assert main([*evaluate, "--suite=clean", "--n=64", "--quiet"]) == 0
