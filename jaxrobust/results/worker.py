"""Reads cell files in processes of its own: parsing a hundred thousand of them takes one core too long.

Plain processes, not a pool: a pool would import the caller's main module again, or fork a process that runs JAX.
`python -m jaxrobust.results.worker ROOT` takes items as JSON on standard input and answers with an Arrow stream.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from jaxrobust.core.optional import require
from jaxrobust.results.folder import File
from jaxrobust.results.reader import Item

# Below this many files, starting processes costs more than it saves.
WORTHWHILE = 10_000
MOST_PROCESSES = 8


def read_in_processes(root: str | os.PathLike, items: list[Item]) -> list[Any] | None:
  """Arrow tables of all items; None where it is not worthwhile, or where a process failed, whatever the reason."""
  count = min(MOST_PROCESSES, os.cpu_count() or 1)
  if len(items) < WORTHWHILE or count == 1:
    return None
  pa = require("pyarrow", "report", "the results index")
  words = [sys.executable, "-m", "jaxrobust.results.worker", os.fspath(root)]
  with contextlib.ExitStack() as stack:
    try:
      # Answers go to files: a process that nobody reads from would wait for ever.
      answers = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(count)]
      workers = []
      for share, answer in enumerate(answers):
        question = stack.enter_context(tempfile.TemporaryFile())
        question.write(json.dumps(items[share::count]).encode())
        question.seek(0)
        workers.append(subprocess.Popen(words, stdin=question, stdout=answer, stderr=subprocess.DEVNULL))
        stack.callback(_end, workers[-1])
      if any(worker.wait() != 0 for worker in workers):
        return None
      for answer in answers:
        answer.seek(0)
      return [pa.ipc.open_stream(answer.read()).read_all() for answer in answers]
    except (OSError, ValueError):
      return None


def _end(worker: subprocess.Popen) -> None:
  worker.kill()
  worker.wait()


def main() -> None:
  from jaxrobust.results.folder import open_folder
  from jaxrobust.results.index import read_table

  pa = require("pyarrow", "report", "the results index")
  items = [
    Item(path, stamp, tuple(File(*part) for part in parts), missing)
    for path, stamp, parts, missing in json.load(sys.stdin)
  ]
  table = read_table(open_folder(sys.argv[1]), items)
  buffer = io.BytesIO()
  with pa.ipc.new_stream(buffer, table.schema) as stream:
    stream.write_table(table)
  sys.stdout.buffer.write(buffer.getvalue())


if __name__ == "__main__":
  main()
