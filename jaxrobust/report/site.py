"""The leaderboard page: a folder that works from a disk, a web server or an e-mail attachment.

`index.html`, one style sheet and one script, and the numbers as scripts beside them. Nothing is fetched from elsewhere.
"""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from jaxrobust.core.errors import StorageError
from jaxrobust.core.files import atomic_write
from jaxrobust.report.boards import Board
from jaxrobust.report.cell_rows import CellRow
from jaxrobust.report.defense_documents import defense_documents
from jaxrobust.report.documents import as_script, index_document, model_document, model_id
from jaxrobust.report.pictures import read_pictures
from jaxrobust.results.folder import Folder, LocalFolder
from jaxrobust.results.store import IMAGES

STATIC = (
  "index.html",
  "style.css",
  "page.js",
  "share.js",
  "scatter.js",
  "suites.js",
  "trends.js",
  "defenses.js",
  "cells.js",
)
CARD = "card.png"
_CARD = '<meta property="og:image" content="{}">\n<meta name="twitter:card" content="summary_large_image">\n'


def write_if_new(path: Path, text: str | bytes) -> None:
  """Writes a file unless it already says the same, so that an unchanged report leaves unchanged files."""
  raw = text.encode("utf-8") if isinstance(text, str) else text
  try:
    if path.read_bytes() == raw:
      return
  except OSError:
    pass
  atomic_write(path, raw)


def write_site(
  folder: Folder,
  models: Mapping[str, Sequence[CellRow]],
  boards: Sequence[Board],
  more: Mapping[str, Sequence[Mapping[str, Any]]],
  problems: Sequence[str],
  out: Path,
  url: str = "",
) -> Path:
  """Writes the page and returns its address on disk.

  Args:
    folder, models, boards, problems: what it shows.
    more: documents already: studies, suites, zoos.
    out: its folder.
    url: where it will be published; pictures of shared links, where there is one in `out`, need an address.
  """
  static = resources.files("jaxrobust.report") / "static"
  for name in STATIC:
    text = (static / name).read_text("utf-8")
    address = f"{html.escape(url.rstrip('/'))}/{CARD}" if url else CARD
    card = _CARD.format(address) if (out / CARD).is_file() else ""  # Drawn before, where plots are.
    write_if_new(out / name, text.replace(_CARD.format(CARD), card))
  places = {"root": _link(folder, out), "given": folder.show("x")[:-1]}
  document = {**index_document(boards, models, problems), "defenses": defense_documents(models), **more, **places}
  write_if_new(out / "data" / "index.js", as_script("boards", document))
  images = {file.path: file.size for file in folder.files() if file.path.endswith(IMAGES)}
  names = set()
  for model, rows in models.items():
    name = f"{model_id(model)}.js"
    names.add(name)
    document = model_document(rows, boards, list(_pictures(folder, rows, images)))
    write_if_new(out / "data" / "models" / name, as_script("model", model_id(model), document))
  _remove_others(out / "data" / "models", names)
  return out / "index.html"


def _pictures(folder: Folder, rows: Sequence[CellRow], images: Mapping[str, int]) -> Iterable[dict[str, Any]]:
  for row in rows:
    path = row.path.removesuffix(".json") + IMAGES
    if path in images:
      for picture in read_pictures(folder, path, images[path]):
        about = {"data": row.cell.data, "condition": row.cell.condition, "attack": row.cell.id}
        yield {**about, "threat": row.threat, "unit": row.unit, **picture}


def _link(folder: Folder, out: Path) -> str:
  """Says how the page reaches the cell files: beside it where both are local, by address otherwise."""
  if isinstance(folder, LocalFolder):
    return Path(os.path.relpath(folder.root.absolute(), out.absolute())).as_posix() + "/"
  return folder.show("")


def _remove_others(folder: Path, names: set[str]) -> None:
  """Documents of models that are gone: a page must not keep what no cell says any more."""
  try:
    for path in folder.glob("*.js"):
      if path.name not in names:
        path.unlink(missing_ok=True)
  except OSError as error:
    raise StorageError(f"cannot write the page to {folder}: {error.strerror or error}") from None
