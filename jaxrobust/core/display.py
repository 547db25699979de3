"""Values as people meet them in a prompt or a notebook: one line of text, or a small table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]], notes: Sequence[str] = ()) -> str:
  """Returns a table for notebooks; everything in it is text, whatever it holds.

  >>> html_table("net", ["attack", "robust"], [["<pgd>", "50.0"]])
  '<table><caption>net</caption><tr><th>attack</th><th>robust</th></tr><tr><td>&lt;pgd&gt;</td><td>50.0</td></tr></table>'
  """
  lines = [_row("th", header), *(_row("td", row) for row in rows)]
  more = "".join(f"<p>{escape(note)}</p>" for note in notes)
  return f"<table><caption>{escape(title)}</caption>{''.join(lines)}</table>{more}"


def _row(tag: str, cells: Sequence[object]) -> str:
  return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"
