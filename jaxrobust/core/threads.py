"""Work on the host, spread over the cores by threads: for functions that let go of the interpreter's lock."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
  """Returns the cores that this process may run on."""
  return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
  """Maps a function over items, in their order; the first error in that order is raised, and no more work begun.

  The function must not call `in_threads` itself: all callers share the same threads.

  >>> in_threads(abs, [-3, 2, -1])
  [3, 2, 1]
  """
  return list(_pool().map(function, items))


@functools.cache
def _pool() -> ThreadPoolExecutor:
  return ThreadPoolExecutor(cores(), "core")
