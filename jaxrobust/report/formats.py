"""Tables as Markdown and LaTeX, and text that stays text in them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jaxrobust.core.terminal import one_line

_LATEX = {
  "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
  "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip
# What pdfLaTeX has no character for, or another.
_SYMBOLS = str.maketrans({
  "–": "--", "−": "$-$", "±": r"$\pm$", "≈": r"$\approx$", "≤": r"$\le$", "≥": r"$\ge$", "×": r"$\times$",
  "∞": r"$\infty$", "ℓ": r"$\ell$", "α": r"$\alpha$", "β": r"$\beta$", "ε": r"$\varepsilon$", "λ": r"$\lambda$",
  "σ": r"$\sigma$", "τ": r"$\tau$", "²": "$^2$", "√": r"$\surd$", "→": r"$\to$",
})  # fmt: skip


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
  """Returns a GitHub table of ready texts, the first `left` columns flush left, the others flush right.

  >>> print(markdown_table(["a", "b"], [["x", "1"]]), end="")
  | a | b |
  | --- | ---: |
  | x | 1 |
  """
  rule = ["---"] * left + ["---:"] * (len(head) - left)
  return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *rows))


def latex_table(comment: str, head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
  r"""Returns a `booktabs` table of ready texts, under a comment that says what it is.

  >>> print(latex_table("Two", ["a", "b"], [["[x]", "1 ± 2"]]).splitlines()[5])
  {}[x] & 1 $\pm$ 2 \\
  """
  lines = [" & ".join(line).translate(_SYMBOLS) + r" \\" for line in (head, *rows)]
  # Not an option of the break before, which is looked for behind spaces too.
  lines = ["{}" + line if line.lstrip()[:1] in ("[", "*") else line for line in lines]
  return "\n".join(
    [
      f"% {comment}; needs the package booktabs.",
      rf"\begin{{tabular}}{{{'l' * left}{'r' * (len(head) - left)}}}",
      r"\toprule",
      lines[0],
      r"\midrule",
      *lines[1:],
      r"\bottomrule",
      r"\end{tabular}",
      "",
    ]
  )


def markdown_text(text: str) -> str:
  """Escapes text: every character that Markdown or HTML gives a meaning is escaped."""
  escaped = re.sub(r"([\\`*_{}\[\]()#!|~$@])", r"\\\1", one_line(text))
  return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def latex_text(text: str) -> str:
  """Returns the same for LaTeX."""
  return "".join(_LATEX.get(character, character) for character in one_line(text))
