"""Perturbation sequences as a condition: each image of a data set becomes a sequence of frames."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np

from jaxrobust.core.mesh import map_rows
from jaxrobust.core.types import Array
from jaxrobust.data.source import DataSource, SourceView
from jaxrobust.noises.registry import check_size, noise_key_data
from jaxrobust.noises.sequences import Sequence, make_sequence

# Sequences that a device makes at once.
_ROWS = 4


@dataclass(frozen=True, eq=False)
class PerturbedSource(SourceView):
  """Turns the images of a source into perturbation sequences; `take` gives the images they start from."""

  source: DataSource
  sequence: Sequence
  seed: int = 0

  @property
  def condition(self) -> str:
    return f"sequence-{self.sequence.name}" + ("" if self.sequence.table == 224 else f"-t{self.sequence.table}")

  @property
  def perturbation(self) -> str:
    return self.sequence.name

  @property
  def num_frames(self) -> int:
    return self.sequence.frames

  def frames(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sequences (N, frames, H, W, 3) and labels of the examples with these ids."""
    images, labels = self.source.take(ids)
    check_size(images.shape[1:])
    words = np.stack([noise_key_data(f"sequence {self.sequence.name}", self.seed, int(example)) for example in ids])
    return map_rows(_program(self.sequence), _ROWS, (images, words)), labels

  def fingerprint(self) -> str:
    """Identifies the data, the sequence and the seed."""
    return hashlib.sha256(f"{self.source.fingerprint()} {self.sequence} {self.seed}".encode()).hexdigest()[:16]


def sequence_source(source: DataSource, text: str, side: int, seed: int) -> PerturbedSource:
  """Puts a source under a sequence by name; parameters follow the size of the images unless `-t224` or `-t32` says."""
  name, _, table = text.partition("-t")
  return PerturbedSource(
    source, make_sequence(name, int(table) if table.isdigit() else 224 if side >= 96 else 32), seed
  )


@functools.cache
def _program(sequence: Sequence) -> Callable[[Array, Array], Array]:
  return jax.vmap(lambda image, word: sequence(image, jax.random.wrap_key_data(word)))
