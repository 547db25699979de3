"""Rows of compiled programs on disk and on a page: what is compiled once is not compiled again.

A folder holds `programs.jsonl`, a line per program, appended as they come, and `table.md` and `index.html` made of it.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from jaxrobust.core.files import atomic_write
from jaxrobust.core.reading import loads, read_text
from jaxrobust.pods.measure import PodRow

FILE = "programs.jsonl"
# What a row is known by; the rest was measured.
_KEY = ("program", "arch", "dtype", "precision", "slice", "jax")


class RowStore:
  """Rows of a folder, in the order in which they came; none is kept where there is no folder."""

  def __init__(self, folder: Path | None):
    self.folder = folder
    self.rows: list[PodRow] = read_rows(folder / FILE) if folder and (folder / FILE).exists() else []

  def find(self, wanted: PodRow, rows: int | None) -> PodRow | None:
    """Returns the stored row of a program, for as many rows per chip if that is asked for."""
    same = [row for row in self.rows if _key(row) == _key(wanted) and rows in (None, row.rows)]
    return same[-1] if same else None

  def add(self, row: PodRow) -> None:
    """Keeps a row."""
    self.rows.append(row)
    if self.folder:
      self.folder.mkdir(parents=True, exist_ok=True)
      with (self.folder / FILE).open("a") as file:
        file.write(json.dumps(row.as_dict()) + "\n")

  def write_pages(self) -> None:
    """Writes the table and the page."""
    if self.folder:
      atomic_write(self.folder / "table.md", markdown(self.rows).encode())
      atomic_write(self.folder / "index.html", page(self.rows).encode())


def _key(row: PodRow) -> tuple[Any, ...]:
  return tuple(vars(row)[name] for name in _KEY)


def read_rows(path: Path) -> list[PodRow]:
  """Reads rows; a line that was cut off by a stop is left out."""
  known, rows = {item.name for item in fields(PodRow)}, []
  for line in read_text(path).splitlines():
    try:
      rows.append(PodRow(**{name: value for name, value in loads(line).items() if name in known}))
    except (AttributeError, TypeError, ValueError):
      continue
  return rows


HEADER = (
  *("program", "network", "slice", "rows", "compiled in", "TFLOP", "GB moved", "HBM", "links", "time"),
  *("bound by", "share of FLOPs", "of bytes", "images/s", ""),
)


def texts(row: PodRow) -> tuple[str, ...]:
  """Returns the columns of a row as texts.

  >>> texts(PodRow("linf-pgd-40", "resnet20", "bfloat16", "highest", "v5e:2x2", 128, 30.0, 4e10, 1e9, 2e9, 16e9))[:5]
  ('linf-pgd-40', 'resnet20 bfloat16', 'v5e:2x2', '128', '30 s')
  """
  arithmetic = row.dtype if row.dtype == "bfloat16" else f"{row.dtype} {row.precision}"
  links = [f"{count} {kind}, {_bytes(moved)}" for kind, (count, moved) in row.collectives.items()]
  calls = [f"{count} {name.rpartition('$')[2]}" for name, count in row.calls.items()]
  share = lambda part: "" if part is None else f"{part:.3f}"
  return (
    row.program,
    f"{row.arch} {arithmetic}",
    row.slice,
    str(row.rows),
    f"{row.compile_seconds:.0f} s",
    f"{row.flops / 1e12:.3g}" if row.flops else "",
    f"{row.bytes / 1e9:.3g}",
    f"{row.memory / 1e9:.2f} of {row.of_memory / 1e9:.0f} GB",
    "; ".join(links) or "none",
    f"{row.seconds * 1e3:.3g} ms",
    row.bound,
    share(row.share_flops),
    share(row.share_bytes),
    "" if row.images_per_second is None else f"{row.images_per_second:.3g}",
    row.reason or "; ".join(calls),
  )


def _bytes(count: float) -> str:
  return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.3g} MB"


def markdown(rows: Iterable[PodRow]) -> str:
  """Returns the rows as a table of Markdown."""
  lines = [HEADER, ("---",) * len(HEADER), *map(texts, rows)]
  return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def page(rows: Iterable[PodRow]) -> str:
  """Returns the rows as one page that needs nothing else."""
  cell = lambda tag, line: "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in line)
  body = "".join(f"<tr{' class=refused' if row.reason else ''}>{cell('td', texts(row))}</tr>" for row in rows)
  return _PAGE.format(head=cell("th", HEADER), body=body)


_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Programs for slices of accelerators</title>
<meta name="viewport" content="width=device-width"><style>
:root {{ color-scheme: light dark }} body {{ font: 15px system-ui; margin: 2em }} .wide {{ overflow-x: auto }}
table {{ border-collapse: collapse }} th, td {{ padding: .3em .6em; text-align: left; border-bottom: 1px solid #8886 }}
td:nth-child(n+4):nth-child(-n+7), td:nth-child(n+12):nth-child(-n+14) {{ text-align: right }}
.refused td {{ color: #c33 }}</style><h1>Programs for slices of accelerators</h1>
<p>Compiled for chips that need not be there. Costs and memory are those of one chip and one run; times are a chip's at
its peaks, images per second those of attacks in which every image takes all its steps.</p>
<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></html>
"""
