"""The view of defended models in a real browser: every table has its heads, and what was not run says so."""

import numpy as np

from jaxrobust.report.report import write_report
from jaxrobust.results import Cell, save_result
from tests.report.synthetic import result
from tests.report.test_page import Page

CELLS = {"none": 90, "linf-bim-20": 20, "oblivious:gradient:linf-bim-20": 70, "oblivious:images:linf-mim-10": 40}


def test_every_table_of_defenses_has_heads(browser, tmp_path):
  correct = np.arange(100) < 90
  for attack, robust in CELLS.items():
    eps = None if attack == "none" else "8/255"
    cell = Cell(model="net+jpeg", data="digits", condition="clean", attack=attack, eps=eps, n=100)
    save_result(tmp_path / "results", result(cell, {"correct": correct, "robust": np.arange(100) < robust}))
  address = write_report(tmp_path / "results", tmp_path / "site").page.as_uri()
  browser.get(f"{address}#/defenses")
  view = Page(browser)
  view.wait("table.board")
  assert view.texts("table.board caption") == [
    f"digits, linf-{one}@8/255: accuracy in per cent" for one in ("bim-20", "mim-10")
  ]
  assert view.texts("table.board thead th") == ["Model", "Clean", "Adaptive", "Naive gradient", "Images without it"] * 2
  assert view.texts("table.board td") == ["90.0", "20.0", "70.0", "–", "90.0", "–", "–", "40.0"]
