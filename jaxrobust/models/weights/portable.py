"""Classifiers as two small files, and the ones that ship with this package.

A portable classifier is a folder with `classifier.json` and `weights.npz` (one array per variable, by its path), in
place of a checkpoint's many files: fit for a package, a mail or a release page. What ships is listed by
`jaxrobust list zoo`, loads by name, and has the results that were measured for it in `cells/`.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import flax
import numpy as np

from jaxrobust.core.errors import CorruptFileError
from jaxrobust.core.files import atomic_write
from jaxrobust.core.reading import read_npz, reading

WEIGHTS = "weights.npz"
SHIPPED = Path(__file__).parents[1] / "shipped"


def write_weights(folder: str | os.PathLike, variables: Any) -> Path:
  """Writes variables as one npz file; equal weights give equal bytes."""
  flat = flax.traverse_util.flatten_dict(variables, sep="/")
  buffer = io.BytesIO()
  np.savez_compressed(buffer, **{name: np.asarray(flat[name]) for name in sorted(flat)})  # type: ignore[arg-type]
  path = Path(folder) / WEIGHTS
  atomic_write(path, buffer.getvalue())
  return path


def read_portable(folder: str | os.PathLike, abstract: Any) -> Any:
  """Returns the variables of a portable classifier, which must be exactly those of `abstract`."""
  path = Path(folder) / WEIGHTS
  arrays = read_npz(path, f"{path} is not a file of weights")
  wanted = flax.traverse_util.flatten_dict(abstract, sep="/")
  odd = sorted(set(wanted) ^ set(arrays)) or [n for n, leaf in wanted.items() if arrays[n].shape != leaf.shape]
  if odd:
    raise CorruptFileError(f"{path} holds other weights than the network has: {', '.join(odd[:3])}")
  # One contiguous float array per variable, in the type the architecture has it.
  with reading(f"{path} is not a file of weights"):
    typed = {name: np.asarray(arrays[name], leaf.dtype) for name, leaf in wanted.items()}
  return flax.traverse_util.unflatten_dict(typed, sep="/")


def shipped() -> list[str]:
  """Returns names of the classifiers in this package."""
  return sorted(path.parent.name for path in SHIPPED.glob(f"*/{WEIGHTS}"))


def shipped_results() -> list[Path]:
  """Returns the results folders of the classifiers in this package, for a page or a query."""
  return sorted(SHIPPED.glob("*/cells"))
