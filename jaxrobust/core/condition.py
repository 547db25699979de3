"""Names of corruptions, `fog-3`: in conditions of cells, in variants of data sets and on command lines alike."""

from __future__ import annotations

import functools
import re

# Low-pass filters, whose number is a bandwidth or a frequency.
FILTERS = ("lowpass", "cutoff")
_CORRUPTION = re.compile(r"([a-z0-9_]+)-([1-9][0-9]?)(-.*)?")


@functools.lru_cache(4096)
def parse_corruption(text: str) -> tuple[str, int] | None:
  """Returns the corruption and severity that a condition or variant names; None where it names none, as a filter.

  >>> parse_corruption("fog-3-t32"), parse_corruption("clean"), parse_corruption("cutoff-8")
  (('fog', 3), None, None)
  """
  match = _CORRUPTION.fullmatch(text)
  return (match[1], int(match[2])) if match and match[1] not in FILTERS else None
