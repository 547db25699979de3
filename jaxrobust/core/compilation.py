"""Compiled programs: a persistent cache that is on by default, and a counter that shows it works."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager

import jax
from jax import monitoring
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from jaxrobust.core.errors import StorageError

_HITS = "/jax/compilation_cache/cache_hits"
_COMPILED = "/jax/core/compile/backend_compile_duration"
_DIR = "jax_compilation_cache_dir"
_SETTINGS = (_DIR, "jax_persistent_cache_min_compile_time_secs", "jax_persistent_cache_min_entry_size_bytes")


def default_cache_dir() -> pathlib.Path:
  """Returns $JAXROBUST_CACHE, or a folder of this user's own: a cache is code that will be run."""
  named = os.environ.get("JAXROBUST_CACHE")
  if named:
    return pathlib.Path(named)
  try:
    caches = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
  except RuntimeError:  # A container's user without an entry or a $HOME.
    raise StorageError("no home folder for the compilation cache; set JAXROBUST_CACHE") from None
  return caches / "jaxrobust" / "xla"


def enable_compilation_cache(folder: str | os.PathLike | None = None) -> pathlib.Path:
  """Keeps every compiled program on disk, so that a second process compiles nothing.

  A folder already set for JAX ($JAX_COMPILATION_CACHE_DIR) is respected. JAX's own threshold of one second
  would leave most of our step programs out.
  """
  set_by_user = getattr(jax.config, _DIR, None)
  path = pathlib.Path(folder or set_by_user or default_cache_dir())
  try:
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
  except OSError as error:
    raise StorageError(f"cannot make the compilation cache {path}: {error.strerror}; set JAXROBUST_CACHE") from None
  for setting, value in zip(_SETTINGS, (str(path), 0.0, 0), strict=True):
    jax.config.update(setting, value)
  return path


@contextmanager
def kept_programs(folder: str | os.PathLike | None = None) -> Iterator[None]:
  """Keeps what is compiled inside the block on disk, as commands do, and leaves JAX's settings as they were.

  For calls from Python, whose process is the user's own: where they have set a cache theirs is used, where none can be
  made (a home that is read only) programs live as long as the process.

  Args:
    folder: another place; an empty one has everything inside the block compiled anew.
  """
  before = {setting: getattr(jax.config, setting) for setting in _SETTINGS}
  ours = (folder is not None or before[_DIR] is None) and _can_enable(folder)
  if ours:
    reset_cache()  # JAX asks once for each process whether there is one.
  try:
    yield
  finally:
    if ours:
      for setting, value in before.items():
        jax.config.update(setting, value)
      reset_cache()


def _can_enable(folder: str | os.PathLike | None) -> bool:
  try:
    enable_compilation_cache(folder)
  except StorageError:
    return False
  return True


class CompileCount:
  """Programs built since the counter was entered.

  Attributes:
    programs: executables made, from scratch or from the cache.
    cache_hits: how many of them came from the persistent cache.
  """

  def __init__(self) -> None:
    self.programs = 0
    self.cache_hits = 0

  @property
  def compiled(self) -> int:
    """Executables compiled from scratch."""
    return self.programs - self.cache_hits


@contextmanager
def count_compilations() -> Iterator[CompileCount]:
  """Counts what is compiled inside the block.

  >>> with count_compilations() as count:
  ...   _ = jax.jit(lambda x: x * 2.5 + 17)(1.0)
  >>> count.programs >= 1
  True
  """
  count = CompileCount()
  active = True

  def on_event(event: str, **_: object) -> None:
    if active and event == _HITS:
      count.cache_hits += 1

  def on_duration(event: str, duration_secs: float, **_: object) -> None:
    del duration_secs
    if active and event == _COMPILED:
      count.programs += 1

  # JAX has no public way to take a listener off again; a finished counter just stops listening.
  monitoring.register_event_listener(on_event)
  monitoring.register_event_duration_secs_listener(on_duration)
  try:
    yield count
  finally:
    active = False
