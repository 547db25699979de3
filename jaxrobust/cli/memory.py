"""Huge pages for the memory of a command.

XLA:CPU asks for its scratch memory anew in every step. In pages of 4 kB a training step of a small network spends a
third of its time in page faults; in pages of 2 MB nearly none. Where the kernel gives huge pages only to those who ask
(Linux' `madvise` mode), glibc asks if told by its environment at the start of a process: so the process starts again.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_MODE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_TUNABLES = "GLIBC_TUNABLES"
_ASK = "glibc.malloc.hugetlb=1"


def start_with_huge_pages() -> None:
  """Starts this very command again, in the same process, with huge pages; returns where there is nothing to gain.

  Anyone's own GLIBC_TUNABLES are left alone, which also is how the second start knows that it is one.
  """
  if _TUNABLES in os.environ or not sys.platform.startswith("linux") or not sys.executable:
    return
  try:
    wanted = "[madvise]" in _MODE.read_text()
  except OSError:
    return
  if wanted:
    os.environ[_TUNABLES] = _ASK
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
