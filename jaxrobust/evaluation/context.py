"""The context that the jobs of one classifier share, computed once: its fingerprint, clean passes, corrupted images.

Nothing here changes a verdict: a clean pass is reused only by runs that would have made the very same dispatches.
Memory is bounded; what has been pushed out is computed again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from jaxrobust.certify.first import BoundPilot
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.classifier_forms import choosing
from jaxrobust.core.defense import undefended
from jaxrobust.data.judging import Judging
from jaxrobust.data.source import ArraySource, DataSource, Ids, SourceView
from jaxrobust.engine.example import CleanLogits
from jaxrobust.models.zoo import fingerprint

LARGEST_KEPT = 1 << 30


class KeptSource(SourceView):
  """Keeps the images of a source where they are costly to make (corrupted, decoded): each is made once."""

  def __init__(self, source: DataSource, image_shape: tuple[int, ...]):
    self.source = source
    self._images = np.empty((len(source), *image_shape), np.float32)
    self._labels = np.empty(len(source), np.int32)
    self._there = np.zeros(len(source), bool)

  def take(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
    """Returns the examples with these ids."""
    ids = np.asarray(ids)
    new = np.unique(ids[~self._there[ids]])
    if len(new):
      self._images[new], self._labels[new] = self.source.take(new)
      self._there[new] = True
    return self._images[ids], self._labels[ids]

  def fingerprint(self) -> str:
    """Returns the source's own."""
    return self.source.fingerprint()

  def subset(self, n: int) -> DataSource:
    """Returns the first n examples of the source itself."""
    return self.source.subset(n)

  @property
  def nbytes(self) -> int:
    return self._images.nbytes


@dataclass
class SourceCache:
  """Keeps the images of data sets that are costly to make, up to a gigabyte.

  Attributes:
    shared: whether several classifiers use it, so that whatever one of them needs is kept for the others.
  """

  shared: bool = False
  _kept: OrderedDict[str, KeptSource] = field(default_factory=OrderedDict)

  def keep(self, source: DataSource) -> DataSource:
    """Returns the source with its images kept, if they are not too many."""
    key = source.fingerprint()
    if key not in self._kept:
      image = source.take(np.zeros(1, int))[0]
      if len(source) * image.nbytes > LARGEST_KEPT:
        return source
      self._kept[key] = KeptSource(source, image.shape[1:])
    self._kept.move_to_end(key)
    _shrink(self._kept, sum(kept.nbytes for kept in self._kept.values()), lambda kept: kept.nbytes)
    return self._kept[key]


@dataclass
class ModelContext:
  """Holds what the jobs of one classifier share; one per classifier and run.

  Attributes:
    classifier: what is evaluated.
    about: what is known of it (`arch`, `family`, `technique`, `params`, `notes`), for provenance.
    repeated: fingerprints of the data that several jobs are about; of other data nothing is kept.
    certificates: distances within which examples were proved robust, by all that decides them.
    pilots: the examples on which bounds of certificates are tried, by all that decides what is found.
    command: of a cell, as `data/condition/attack@eps`, the command line that computes it again.
    sources: the images that are kept; one cache may serve many classifiers.
    makers: other classifiers by name, against which images are made that this one is shown.
  """

  classifier: Classifier
  about: Mapping[str, Any] = field(default_factory=dict)
  command: Callable[[str], str] | None = None
  repeated: frozenset[str] = frozenset()
  certificates: dict[tuple, np.ndarray] = field(default_factory=dict)
  pilots: dict[tuple, BoundPilot] = field(default_factory=dict)
  makers: Mapping[str, ModelContext] = field(default_factory=dict)
  _clean: OrderedDict[tuple, CleanLogits] = field(default_factory=OrderedDict)
  sources: SourceCache = field(default_factory=SourceCache)

  @cached_property
  def fingerprint(self) -> str:
    return fingerprint(self.classifier)

  @cached_property
  def inside(self) -> ModelContext:
    """Returns the context of the classifier without its defenses."""
    return ModelContext(undefended(self.classifier), repeated=self.repeated)

  def maker(self, source: str) -> ModelContext:
    """Returns the context of the classifier that images are made against: a named one, or the one inside a defense."""
    return self.makers[source] if source else self.inside

  def choosing(self, judging: Judging) -> Classifier:
    """Returns the classifier as it chooses among what answers are judged by."""
    return self.classifier if judging.choices is None else choosing(self.classifier, judging.choices)

  def clean(self, data: DataSource, options: str) -> CleanLogits | None:
    """Returns the clean logits that jobs on this data share, if several do; `options` is all else that decides them."""
    key = data.fingerprint(), options
    if key[0] not in self.repeated or len(data) * self.classifier.num_classes * 4 > LARGEST_KEPT:
      return None
    found = self._clean.setdefault(key, {})
    self._clean.move_to_end(key)
    size = lambda kept: sum(logits.nbytes for logits in kept.values())
    _shrink(self._clean, sum(map(size, self._clean.values())), size)
    return found

  def keep(self, source: DataSource) -> DataSource:
    """Returns the source with its images kept, if several cells need them, they are costly to make and not too many."""
    if isinstance(source, ArraySource):
      return source
    if not self.sources.shared and source.fingerprint() not in self.repeated:
      return source
    return self.sources.keep(source)


def _shrink(kept: OrderedDict, total: int, size: Callable[[Any], int]) -> None:
  """Drops what was used longest ago until the rest fits; never the last one."""
  while total > LARGEST_KEPT and len(kept) > 1:
    total -= size(kept.popitem(last=False)[1])
