"""`list`, `convert` and `report` by themselves: what they ask of the rooms behind them, and what they print."""

import importlib.util
from types import SimpleNamespace

import pytest

from jaxrobust.cli import list as listing
from jaxrobust.cli.convert import _numbers
from jaxrobust.core.errors import InputError
from jaxrobust.models.weights import convert as conversion
from tests.cli.calling import call, refused

pytestmark = pytest.mark.smoke


@pytest.mark.parametrize("kind", listing.KINDS)
def test_every_list_has_names_in_one_column_and_a_text_beside_each(kind):
  entries = listing._entries(kind, "*")
  assert len({name for name, _ in entries}) == len(entries) > 2
  code, out, err = call("list", kind)
  lines = out.splitlines()
  assert (code, err, len(lines)) == (0, "", len(entries))
  width = max([listing.NARROWEST, *(len(name) for name, _ in entries)])
  assert [(line[:width].strip(), line[width + 1 :]) for line in lines] == entries
  assert all(text and "\n" not in text for _, text in entries), "everything says what it is"


def test_a_pattern_chooses_and_no_kind_is_a_usage_line():
  assert [name for name, _ in listing._entries("attacks", "apgd-*")] == ["apgd-ce", "apgd-dlr", "apgd-t"]
  code, usage, _ = call("list")
  assert (code, usage) == call("list", "--help")[:2] and code == 0
  assert usage.startswith(f"jaxrobust list {'|'.join(listing.KINDS)} [PATTERN]\njaxrobust list attacks NAME ")


def test_convert_hands_its_options_over_and_says_what_it_did(monkeypatch):
  asked = {}

  def convert(checkpoint, arch, out, **options):
    asked.update(checkpoint=checkpoint, arch=arch, out=out, **options)
    about = {"params": 1234567, "normalization": "from the checkpoint", "notes": ("takes the EMA",)}
    return SimpleNamespace(mean=(0.5,), std=(0.25,), folder=out, **about)

  monkeypatch.setattr(conversion, "convert_checkpoint", convert)
  words = ("--arch=resnet20", "--out=net", "--num_classes=7", "--mean=0.5,0.4,0.3", "--options.width=2", "--key=ema")
  code, out, err = call("convert", "file.pth", *words)
  assert (code, err) == (0, "") and "1,234,567 parameters" in out and "saved in net" in out
  assert "takes the EMA" in out
  assert asked == {
    "checkpoint": "file.pth", "arch": "resnet20", "out": "net", "num_classes": 7, "sha256": "", "key": "ema",
    "mean": (0.5, 0.4, 0.3), "std": None, "options": {"width": 2}, "size": None, "check": "",
  }  # fmt: skip


@pytest.mark.parametrize(
  ("text", "numbers"), [("", None), ("0.5", (0.5,)), ("(0.1, 0.2)", (0.1, 0.2)), ("[1,2,3]", (1.0, 2.0, 3.0))]
)
def test_numbers_of_channels(text, numbers):
  assert _numbers("mean", text) == numbers


def test_numbers_that_are_none_are_refused():
  with pytest.raises(InputError, match=r"--std takes numbers such as .*, got 'a,b'"):
    _numbers("std", "a,b")


@pytest.mark.parametrize(
  ("words", "missing"),
  [((), "checkpoint"), (("f.pth",), "--arch"), (("f.pth", "--arch=resnet20"), "--out"), (("--arch=x",), "checkpoint")],
)
def test_convert_names_what_is_missing(words, missing):
  refused(2, f"no {missing}; usage: jaxrobust convert CHECKPOINT", "convert", *words)


@pytest.mark.parametrize(
  ("plots", "there", "made"), [("auto", 1, True), ("auto", 0, False), ("yes", 0, True), ("no", 1, False)]
)
def test_report_takes_several_folders_and_plots_where_it_can(monkeypatch, plots, there, made):
  asked = []

  def write(root, out, *, also, tables, plots, url):
    asked.append((root, out, list(also), plots))
    assert url == "" and tables == []
    return SimpleNamespace(
      problems=["a: damaged"], models=2, cells=3, suites=0, zoos=0, boards=1, plots=4, page=f"{out}/index.html"
    )

  find = importlib.util.find_spec
  monkeypatch.setattr("jaxrobust.report.report.write_report", write)
  monkeypatch.setattr(importlib.util, "find_spec", lambda name: (there or None) if name == "matplotlib" else find(name))
  code, out, err = call("report", "one", "two", "--out=site", f"--plots={plots}")
  assert (code, err) == (0, "") and asked == [("one", "site", ["two"], made)]
  assert "finding: a: damaged" in out and "the page is site/index.html" in out
  assert ("no plots: they need matplotlib" in out) == (plots == "auto" and not there)
