"""What files hold, as hashes that are computed once: files are read again only where size or times have changed.

Kept in `$JAXROBUST_CACHE/contents`, one file for each folder of data. It is a convenience: without it, or where it is
damaged, everything is read anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from jaxrobust.core.compilation import default_cache_dir
from jaxrobust.core.errors import JaxrobustError
from jaxrobust.core.files import atomic_write
from jaxrobust.core.reading import loads, read_if_there
from jaxrobust.core.threads import in_threads

# A file that was changed so shortly before it was read may change again without its times showing it.
_SETTLED = 2.0


def stamp_of(about: os.stat_result) -> str:
  """Returns a text that changes when a file does: its ctime cannot be set, as its mtime can."""
  return f"{about.st_size} {about.st_mtime_ns} {about.st_ctime_ns} {about.st_ino}"


def content_hash(data: bytes) -> str:
  """Returns the hash of a file's bytes."""
  return hashlib.sha256(data).hexdigest()


def known_hashes(
  place: str, names: Sequence[str], stamp: Callable[[str], os.stat_result], read: Callable[[str], bytes]
) -> dict[str, str]:
  """Returns the hash of every file, from the cache where nothing has changed.

  Args:
    place: the folder's or archive's full path.
    stamp: name -> the file's state now.
    read: name -> its bytes.
  """
  known, now = _load(place), time.time()
  states = {name: stamp(name) for name in names}
  changed = [name for name in states if known.get(name, ("", ""))[0] != stamp_of(states[name])]
  if changed:
    hashes = in_threads(lambda name: content_hash(read(name)), changed)
    fresh = dict(zip(changed, hashes, strict=True))
    settled = {name for name in changed if states[name].st_mtime < now - _SETTLED}
    _save(place, known | {name: (stamp_of(states[name]), fresh[name]) for name in settled})
  else:
    fresh = {}
  return {name: fresh[name] if name in fresh else known[name][1] for name in names}


def _cache(place: str) -> Path:
  return default_cache_dir() / "contents" / f"{content_hash(os.fsencode(place))[:32]}.json"


def _load(place: str) -> dict[str, tuple[str, str]]:
  try:
    raw = read_if_there(_cache(place))
    entries = {} if raw is None else loads(raw)
    return {name: (str(stamp), str(digest)) for name, (stamp, digest) in entries.items()}
  except (JaxrobustError, ValueError, TypeError, AttributeError):
    return {}


def _save(place: str, entries: Mapping[str, tuple[str, str]]) -> None:
  with contextlib.suppress(JaxrobustError):  # Nothing depends on it but time.
    atomic_write(_cache(place), json.dumps(entries))
