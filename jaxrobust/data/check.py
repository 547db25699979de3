"""Is a data set there, complete and readable? What to do if not."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from jaxrobust.core.errors import JaxrobustError
from jaxrobust.data.catalogue import data_root
from jaxrobust.data.encoded import EncodedSource
from jaxrobust.data.registry import DATASETS, load_data


def describe(name: str) -> list[tuple[str, str]]:
  """Returns all that is known about a data set before it is loaded."""
  entry = DATASETS[name.partition(":")[0]]
  rows = [
    ("what", entry.description),
    ("size", f"{entry.size_of(name)} images, {entry.classes} classes"),
    ("source", entry.source),
    ("license", entry.license),
    ("folder", f"$JAXROBUST_DATASETS/{entry.folder}" if entry.folder else "embedded"),
    ("get", entry.get or "nothing to do"),
    ("preprocessing", entry.preprocessing),
    ("class map", entry.class_map),
    ("judged", entry.judged),
  ]
  return [(key, value) for key, value in rows if value]


def problems(name: str, data_dir: str | Path | None = None, decode: bool = False) -> Iterator[str]:
  """Yields what is wrong with a data set, one readable line each; with `decode`, every picture is opened."""
  entry = DATASETS[name.partition(":")[0]]
  if entry.folder:
    folder = data_root(data_dir, name) / entry.folder
    for file, expected in entry.md5.items():
      path = folder / file
      if path.is_file() and _md5(path) != expected:
        yield f"{path} is damaged or another version: its MD5 is not {expected}; download it again"
  try:
    source = load_data(name, data_dir)
  except JaxrobustError as error:
    yield str(error)
    return
  if len(source) != entry.size_of(name):
    yield f"{name} has {len(source)} images; a complete copy has {entry.size_of(name)}"
  if source.num_classes != entry.classes:
    yield f"{name} has {source.num_classes} classes; expected {entry.classes}"
  if decode and isinstance(source, EncodedSource):
    yield from (f"example {example}: {reason}" for example, reason in source.bad_images())


def _md5(path: Path) -> str:
  digest = hashlib.md5(usedforsecurity=False)
  with path.open("rb") as file:
    while chunk := file.read(1 << 20):
      digest.update(chunk)
  return digest.hexdigest()
