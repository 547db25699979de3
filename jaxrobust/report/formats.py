"""Tables as Markdown and LaTeX, and text that stays text in them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jaxrobust.core.terminal import one_line

_LATEX = {
  "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
  "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


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
  """Returns a `booktabs` table of ready texts, under a comment that says what it is."""
  lines = [" & ".join(line) + r" \\" for line in (head, *rows)]
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
