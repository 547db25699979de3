"""The views of suites and of OOD trends in a real browser: what they show is what the document says."""

import json

import numpy as np
import pytest

from jaxrobust.report.report import write_report
from jaxrobust.results import Cell, save_result
from tests.report.synthetic import result
from tests.report.test_page import HOSTILE, Page
from tests.report.test_suites import summary


@pytest.fixture(scope="module")
def site(tmp_path_factory):
  root = tmp_path_factory.mktemp("views")
  for at, name in enumerate(["alpha", "beta", HOSTILE, *(f"net-{k}" for k in range(7))]):
    for condition, share in (("clean", 0.9 - 0.04 * at), ("fog-2-t32", 0.6 - 0.05 * at)):
      right = np.arange(100) < 100 * share
      about = {"arch": "net", "technique": "pgd-at" if at else "standard", "family": "f", "params": 10 ** (3 + at)}
      cell = Cell(model=name, data="digits", condition=condition, n=100)
      save_result(root / "results", result(cell, {"correct": right, "robust": right}, about))
    if at < 4:
      folder = root / "results" / f"m{at}"
      folder.mkdir()
      document = summary(name, 0.8 - at / 10, **{HOSTILE: 0.5, "NmFP": {"value": -0.1, "cells": 1, "of": 10}})
      (folder / "ares-bench.summary.json").write_text(json.dumps(document))
  return write_report(root / "results", root / "site").page.as_uri()


@pytest.fixture
def page(browser, site):
  def open_view(view):
    browser.get("about:blank")
    browser.get(f"{site}#/{view}")
    found = Page(browser)
    found.wait("h1")
    return found

  browser.get_log("browser")
  yield open_view
  assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
  assert browser.execute_script("return window.hit") is None


def test_a_suite_shows_what_its_summaries_say(page):
  view = page("suites")
  view.wait("table.board tbody tr")
  suite = view.index()["suites"][0]
  assert view.texts("nav a") == ["Leaderboard", "Suites", "OOD trends"]
  names = view.texts("table.board tbody th.name bdi")
  assert names == [row["name"] for row in suite["rows"]] and HOSTILE in names
  first = suite["columns"].index(next(c for c in suite["columns"] if c["name"] == "imagenet-v2"))
  script = """return [...document.querySelectorAll("table.board tbody tr")].map((row) =>
    row.children[arguments[0]].firstChild.data)"""
  shown = view.run(script, 3 + first)  # After the name, the average and the mean rank.
  assert [float(text) for text in shown] == [
    pytest.approx(row["numbers"][first][0], abs=0.051) for row in suite["rows"]
  ]
  assert set(view.texts("table.board .part-of")) == {"1 of 10"}
  assert len(view.find("figure")) >= 4 and "Of the best of each metric" in view.texts("figcaption")
  assert any("With and without pgd-at" in text for text in view.texts("figcaption"))


def test_a_dot_of_a_trend_leads_to_its_model(page):
  view = page("trends")
  view.wait("svg a .dot")
  zoo = view.index()["zoos"][0]
  assert len(view.find("table.ood tbody tr")) == 10 == len(zoo["names"])
  trend = zoo["trends"][0]
  (text,) = [text for text in view.texts("figure .meta") if text.startswith("y = ")]
  assert f"{trend['slope']:.4f}" in text and f"{trend['r2']:.4f}" in text
  titles = view.texts("figure:first-child svg a title")
  assert len(titles) == 10 and any(title.startswith(f"{HOSTILE}\n") for title in titles)
  residual = zoo["trends"][zoo["lines"][0]]["residuals"][zoo["order"][0]]
  assert f"{abs(residual):.2f}" in " ".join(view.texts("table.ood tbody tr:first-child td"))
  view.run("document.querySelector('svg a .dot').parentNode.dispatchEvent(new MouseEvent('click', {bubbles: true}))")
  view.wait("table.cells")
  assert "#/model/" in view.browser.current_url


@pytest.mark.parametrize("name", ["suites", "trends"])
def test_a_phone_scrolls_no_page_sideways(page, name):
  view = page(name)
  view.wait("table tbody tr")
  command = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": False}
  view.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", command)
  try:
    assert view.run("return document.documentElement.scrollWidth") <= 390
  finally:
    view.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_phone_sees_the_numbers_before_the_filters(page):
  view = page("")
  command = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": False}
  view.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", command)
  try:
    view.browser.refresh()
    view.wait("table.board tbody tr")
    assert not view.find("details.fold select")[0].is_displayed()
    view.find("details.fold summary")[0].click()
    assert view.find("details.fold select")[0].is_displayed()
  finally:
    view.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_tables_and_figures_can_be_taken_along(page):
  view = page("")
  view.wait("table.board tbody tr")
  saved = """const saved = []; URL.createObjectURL = (blob) => { saved.push(blob.text()); return "data:,"; };
    const done = arguments[arguments.length - 1];
    document.querySelectorAll(".scroll .save button").forEach((button) => button.click());
    Promise.all(saved).then(done)"""
  (text,) = view.browser.execute_async_script(saved)
  lines = text.splitlines()
  names = view.texts("table.board tbody th.name bdi")
  assert lines[0].startswith("Rank,Model") and len(lines) == 1 + len(names)
  assert lines[1].split(",")[1] == names[0] and all("\n" not in line for line in lines)
  assert len(view.texts("p.share button")) == 2
