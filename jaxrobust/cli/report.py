"""`jaxrobust report RESULTS [MORE …] --out site/`: tables, plots and the leaderboard page of a results folder."""

from __future__ import annotations

import importlib.util

from jaxrobust.cli.configuration import parse, split_words
from jaxrobust.core.errors import InputError
from jaxrobust.core.terminal import say

DEFAULTS = {"out": "site", "plots": "auto", "url": ""}
USAGE = """RESULTS [MORE …]: a page, tables and plots of results folders (one alone may be gs://… and the like);
a FILE.csv of models among them, such as a leaderboard, gets its OOD trends; plots are auto, yes or no; url is where the
page will be published"""


def _address(url: str) -> str:
  if url and not url.startswith(("https://", "http://")):
    raise InputError(f"url is where the page will be published, https://…, not {url!r}")
  return url


def run(argv: list[str]) -> int:
  words, options = split_words(argv, DEFAULTS)
  config = parse("report", options, DEFAULTS, USAGE)
  if not words:
    raise InputError("say which results: jaxrobust report RESULTS --out=site, or a FILE.csv of models")
  if config.plots not in ("auto", "yes", "no"):
    raise InputError(f"plots are auto, yes or no, not {config.plots!r}")
  there = importlib.util.find_spec("matplotlib") is not None
  from jaxrobust.report.report import write_report

  plots = config.plots == "yes" or (config.plots == "auto" and there)
  tables = [word for word in words if word.lower().endswith(".csv")]
  folders = [word for word in words if word not in tables]
  root = folders[0] if folders else None
  written = write_report(root, config.out, also=folders[1:], tables=tables, plots=plots, url=_address(config.url))
  for problem in written.problems:
    say(f"finding: {problem}")
  if config.plots == "auto" and not there:
    print("no plots: they need matplotlib (pip install 'jaxrobust[report]')")
  if folders:
    print(f"{written.models} models, {written.cells} cells, {written.plots} plots; tables are in {config.out}/tables")
  else:
    print(f"{written.plots} plots; tables are in {config.out}/trends")
  if written.suites or written.zoos:
    print(f"{written.suites} boards of suites, {written.zoos} zoos with OOD trends ({config.out}/trends)")
  print(f"the page is {written.page}")
  return 0
