"""Tables that LaTeX takes as they are, whatever models are called."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from jaxrobust.report.formats import latex_table, latex_text

NAMES = [
  "[cut] net",
  "*star",
  r"a\b",
  "50% & $5 #1 _{x}^2 ~",
  "<b>",
  "Müller, ℓ∞ 8/255 ≤ ε",
  "r ≈ 0.5 ± 0.1 – 2²",
  "τ → α×β",
  "-",
  "\x1b[31mred",
  "\u202eback",
]


def test_every_symbol_of_ours_has_a_command():
  table = latex_table("names", ["model", "1 ± 2"], [[latex_text(name), "–"] for name in NAMES])
  assert "\n{}[cut] net & -- \\\\\n{}*star" in table and set(filter(lambda c: not c.isascii(), table)) == {"ü"}


@pytest.mark.ci
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="takes pdfLaTeX with booktabs")
def test_pdflatex_takes_it(tmp_path):
  table = latex_table("names", ["model", "n"], [[latex_text(name), "1"] for name in NAMES])
  text = "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n" + table + "\\end{document}\n"
  (tmp_path / "table.tex").write_text(text)
  command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
  done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
  assert done.returncode == 0, done.stdout[-1500:]
