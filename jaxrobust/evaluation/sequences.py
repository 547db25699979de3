"""Perturbation sequences as a condition: how often does the prediction change from frame to frame?

A cell of this kind has one row per sequence: `flips`, the share of frame pairs whose predictions differ (the flip
probability of the whole is their mean), `correct` for the first frame and `robust` for all frames.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.types import Array
from jaxrobust.data.source import DataSource, SourceView
from jaxrobust.evaluation.metrics.flips import is_noise
from jaxrobust.noises.registry import check_size, noise_key_data
from jaxrobust.noises.sequences import Sequence, make_sequence

# Sequences at once: their frames are one batch, the same size for all.
_ROWS = 4


@dataclass(frozen=True, eq=False)
class SequenceSource(SourceView):
  """A data source whose images become perturbation sequences; `take` gives the images they start from."""

  source: DataSource
  sequence: Sequence
  seed: int = 0

  @property
  def condition(self) -> str:
    return f"sequence-{self.sequence.name}" + ("" if self.sequence.table == 224 else f"-t{self.sequence.table}")

  def take(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The unperturbed examples with these ids."""
    return self.source.take(ids)

  def predictions(self, classifier: Classifier, ids: np.ndarray) -> np.ndarray:
    """Predicted classes (N, frames) of the sequences with these ids; -1 for an output that is not finite."""
    images, _ = self.source.take(ids)
    check_size(images.shape[1:])
    words = np.stack([noise_key_data(f"sequence {self.sequence.name}", self.seed, int(example)) for example in ids])
    found = np.empty((len(ids), self.sequence.frames), np.int32)
    for start in range(0, len(ids), _ROWS):
      part = np.arange(start, min(start + _ROWS, len(ids)))
      padded = np.resize(part, _ROWS)
      found[part] = np.asarray(_predict(self.sequence, classifier, images[padded], words[padded]))[: len(part)]
    return found

  def fingerprint(self) -> str:
    """Of the data, the sequence and the seed."""
    return hashlib.sha256(f"{self.source.fingerprint()} {self.sequence} {self.seed}".encode()).hexdigest()[:16]

  def subset(self, n: int) -> SequenceSource:
    """The first n examples."""
    return replace(self, source=self.source.subset(n))


def sequence_source(source: DataSource, text: str, side: int, seed: int) -> SequenceSource:
  """A source under a sequence by name; parameters follow the size of the images unless `-t224` or `-t32` says."""
  name, _, table = text.partition("-t")
  return SequenceSource(source, make_sequence(name, int(table) if table.isdigit() else 224 if side >= 96 else 32), seed)


def flips_per_sequence(name: str, predictions: np.ndarray) -> np.ndarray:
  """The share of frames that differ from the one before, or from the first where frames are draws of noise.

  >>> flips_per_sequence("tilt", np.array([[1, 1, 2], [0, 0, 0]])).tolist()
  [0.5, 0.0]
  """
  reference = predictions[:, :1] if is_noise(name) else predictions[:, :-1]
  return np.mean(predictions[:, 1:] != reference, axis=1).astype(np.float32)


def _predict_one(sequence: Sequence, classifier: Classifier, image: Array, word: Array) -> Array:
  logits = classifier(sequence(image, jax.random.wrap_key_data(word)))
  return jnp.where(jnp.isfinite(logits).all(1), jnp.argmax(logits, 1), -1)


@functools.partial(jax.jit, static_argnums=0)
def _predict(sequence: Sequence, classifier: Classifier, images: Array, words: Array) -> Array:
  return jax.vmap(lambda image, word: _predict_one(sequence, classifier, image, word))(images, words)
