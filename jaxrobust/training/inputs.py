"""What a run is made from besides its config: the examples and the networks it asks, known by their content.

A name may come to mean something else between a stop and the restart: a file that was written again, a teacher that was
trained anew. A run that went on with it would be neither the one nor the other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from jaxrobust.core.errors import CellMismatchError
from jaxrobust.core.files import write_json
from jaxrobust.data.source import ArraySource, DataSource
from jaxrobust.training.stream import Mixture

_FILE = "inputs.json"
# Of arrays of this size or of millions of files, a fingerprint takes longer than a start should.
_MOST_BYTES = 1 << 32


def known_content(name: str, data: DataSource) -> dict[str, str]:
  """The fingerprints of a data set and of an extra one, where they are soon made."""
  if isinstance(data, Mixture):
    return known_content(data.extra.name, data.extra) | known_content(name, data.source)
  whole = data
  while hasattr(whole, "source"):
    whole = whole.source
  small = isinstance(whole, ArraySource) and whole.images.nbytes < _MOST_BYTES
  return {name: data.fingerprint()} if small else {}


def check_inputs(folder: Path, fingerprints: Mapping[str, str], write: bool) -> None:
  """Compares with what the run began with, or writes it down (if this process is the one that writes)."""
  path = folder / _FILE
  if not path.exists():
    if write:
      write_json(path, dict(fingerprints))
    return
  known = json.loads(path.read_text())
  changed = sorted(name for name, value in fingerprints.items() if known.get(name, value) != value)
  if changed:
    raise CellMismatchError(
      f"{folder} was begun with other content of {', '.join(changed)}; bring that back, or use another folder"
    )
