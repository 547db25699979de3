"""Conditions: a data set under natural noise, as the cells of a robustness evaluation see it.

The noise of example i depends on the seed, the corruption and i alone, so a cell is the same for any batch size,
process count or resume point. Official stored sets (`imagenet-c:fog-3`) are data sets, not conditions: the two
protocols have different names and never share one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import jax
import numpy as np

from jaxrobust.core.condition import FILTERS
from jaxrobust.core.errors import InputError
from jaxrobust.core.mesh import map_rows
from jaxrobust.data.source import DataSource, Ids, SequenceSource, SourceView
from jaxrobust.evaluation.sequences import sequence_source
from jaxrobust.evaluation.system_noise import system_source
from jaxrobust.noises.lowpass import low_pass
from jaxrobust.noises.registry import Noise, check_size, make_noise

# All requests are cut and padded to one size: programs of other sizes round differently in the last bit, which now
# and then moves a value across a gray level, and an example's noise must not depend on its neighbors.
_ROWS_SMALL, _ROWS_LARGE = 32, 8


def parse_condition(text: str, image_size: int) -> Noise | None:
  """Reads `none`, or a corruption and its severity; the severity table follows the size of the images.

  The table can be named (`fog-3-t224`), and so can a last JPEG compression (`fog-3-q85`), both together too.

  >>> parse_condition("fog-3", 32).id, parse_condition("fog-3-q85", 224).id, parse_condition("none", 32)
  ('fog-3-t32', 'fog-3-q85', None)
  """
  if text == "none":
    return None
  name, *parts = text.split("-")
  table, quality, severity = (224 if image_size >= 96 else 32), None, 0
  for part in parts:
    if part.isdigit():
      severity = int(part)
    elif part[:1] in ("t", "q") and part[1:].isdigit():
      table, quality = (int(part[1:]), quality) if part[0] == "t" else (table, int(part[1:]))
    else:
      raise InputError(f"condition {text!r} is not of the form corruption-severity[-t32][-q85], such as fog-3")
  return make_noise(name, severity, table, quality)


@dataclass(frozen=True)
class LowPass:
  """A low-pass filter as a noise without randomness; `cutoff` is the highest frequency, where it was asked for so."""

  bandwidth: int
  cutoff: int | None = field(default=None, repr=False)  # The same images have the same fingerprint.

  @property
  def id(self) -> str:
    return f"lowpass-{self.bandwidth}" if self.cutoff is None else f"cutoff-{self.cutoff}"

  def batch(self, images: np.ndarray, seed: int, ids: np.ndarray, rows: int | None = None) -> np.ndarray:
    """Returns filtered images; one program for all bandwidths."""
    del seed, ids
    return map_rows(_filtered, rows or len(images), (images,), self.bandwidth)


def _filtered(images: jax.Array, bandwidth: int) -> jax.Array:
  return jax.vmap(lambda image: low_pass(image, bandwidth))(images)


@dataclass(frozen=True, eq=False)
class NoisySource(SourceView):
  """A data source whose images pass through a noise; labels and ids stay."""

  source: DataSource
  noise: Noise | LowPass
  seed: int = 0

  @property
  def condition(self) -> str:
    return self.noise.id

  def take(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
    """Returns the corrupted examples with these ids."""
    images, labels = self.source.take(ids)
    if not len(labels):
      return images, labels
    rows = _ROWS_SMALL if np.prod(images.shape[1:]) <= 96 * 96 * 3 else _ROWS_LARGE
    return self.noise.batch(images, self.seed, np.asarray(ids), rows), labels

  def fingerprint(self) -> str:
    """Identifies the data, the noise and the seed."""
    return hashlib.sha256(f"{self.source.fingerprint()} {self.noise} {self.seed}".encode()).hexdigest()[:16]


def under(source: DataSource, condition: str, seed: int = 0) -> DataSource:
  """Returns a source under a condition by name; `none` leaves it alone.

  `fog-3` is a corruption, `lowpass-8` a low-pass filter of that bandwidth, `cutoff-8` one that keeps all frequencies
  of at most 8 cycles per image in either axis, `sequence-tilt` a perturbation sequence and `system-pil-opencv-cubic`
  another decoder and resize of encoded files.
  """
  if condition == "none":
    return source
  if isinstance(source, SequenceSource):
    raise InputError(f"{source.name} holds perturbation sequences already; it has no condition {condition!r}")
  shape = source.take(np.zeros(1, int))[0].shape[1:]
  side = min(shape[:2])
  kind, _, rest = condition.partition("-")
  if kind in FILTERS:
    return NoisySource(source, _low_pass(kind, rest, side), seed)
  if kind == "sequence":
    return sequence_source(source, rest, side, seed)
  if kind == "system":
    return system_source(source, *_decoder_and_resize(condition, rest), side)
  noise = parse_condition(condition, side)
  assert noise is not None
  check_size(shape)
  return NoisySource(source, noise, seed)


def _low_pass(kind: str, text: str, side: int) -> LowPass:
  what, most = ("a bandwidth", side) if kind == "lowpass" else ("a frequency", side // 2)
  if not text.isdigit() or not 1 <= int(text) <= most:
    raise InputError(f"a low-pass filter is written {kind}-8, with {what} of 1 to {most}, not {text!r}")
  # A window of the image's side keeps all frequencies, also those of even sides that have no mirror image.
  return LowPass(int(text)) if kind == "lowpass" else LowPass(min(2 * int(text) + 1, side), int(text))


def _decoder_and_resize(condition: str, rest: str) -> tuple[str, str]:
  decoder, _, resize = rest.partition("-")
  if not resize:
    raise InputError(f"system noise is written system-pil-opencv-cubic (decoder, resize), not {condition!r}")
  return decoder, resize
