"""One line of progress per task: images done, images per second, time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

# A log file gets a line at most this often; a terminal gets a moving bar.
_LOG_SECONDS = 15.0


class ProgressFn(Protocol):
  """Is told how much is done, in examples or as a share of all, and what is being worked on."""

  def __call__(self, done: float, text: str = "") -> None: ...


def silent(done: float, text: str = "") -> None:
  """Shows nothing."""
  del done, text


@contextmanager
def show(title: str, total: int, done: int = 0, *, batch: int = 0, quiet: bool = False) -> Iterator[ProgressFn]:
  """Shows a progress bar on a terminal or in a notebook, occasional lines elsewhere; on standard error.

  Where work goes in steps of `batch` examples, the time of a step is shown too.
  """
  if quiet:
    yield silent
  elif _moves():
    with _bar() as bar:
      task = bar.add_task(title, total=total, completed=done, rate="")
      start, before = time.monotonic(), done

      def update(done: float, text: str = "") -> None:
        rate = (done - before) / max(time.monotonic() - start, 1e-9)
        bar.update(task, completed=done, rate=_speed(rate, batch))

      yield update
  else:
    yield _log(title, total, done, batch)


def _moves() -> bool:
  """Returns whether what is shown can be drawn over: on a terminal, or in a notebook that has widgets."""
  if sys.stderr.isatty():
    return True
  return "ipykernel" in sys.modules and Console().is_jupyter and find_spec("ipywidgets") is not None


def _bar() -> Progress:
  return Progress(
    TextColumn("{task.description:<34}"),
    BarColumn(),
    MofNCompleteColumn(),
    TextColumn("{task.fields[rate]}"),
    TimeElapsedColumn(),
    TextColumn("ETA"),
    TimeRemainingColumn(),
    console=Console(stderr=True),
  )


def _speed(rate: float, batch: int) -> str:
  """Says a rate, and how long a batch takes at it.

  >>> _speed(25.0, 0), _speed(25.0, 100)
  ('25.0 images/s', '25.0 images/s, 4.00 s/step')
  """
  return f"{rate:.1f} images/s" + (f", {batch / rate:.2f} s/step" if batch and rate > 0 else "")


def _log(title: str, total: int, before: int, batch: int) -> ProgressFn:
  start = time.monotonic()
  last, shown = start, float(before)

  def update(done: float, text: str = "") -> None:
    nonlocal last, shown
    moment = time.monotonic()
    if done == shown or (moment - last < _LOG_SECONDS and done < total):
      return
    last, shown = moment, done
    rate = (done - before) / max(moment - start, 1e-9)
    left = (total - done) / rate if rate > 0 else float("inf")
    print(f"{title}: {done}/{total}, {_speed(rate, batch)}, ETA {left:.0f} s", file=sys.stderr, flush=True)

  return update


@contextmanager
def show_all(title: str, *, quiet: bool = False) -> Iterator[ProgressFn]:
  """Shows one display over many tasks: a bar on a terminal, occasional lines elsewhere; on standard error."""
  if quiet:
    yield silent
  elif _moves():
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    times = (TimeElapsedColumn(), TextColumn("ETA"), TimeRemainingColumn(elapsed_when_finished=True))
    with Progress(*columns, *times, TextColumn("{task.fields[text]}"), console=Console(stderr=True)) as bar:
      task = bar.add_task(title, total=1.0, text="")
      yield lambda done, text="": bar.update(task, completed=done, text=text)
  else:
    yield _log_all(title)


def _log_all(title: str) -> ProgressFn:
  start = last = time.monotonic()
  first: float | None = None

  def update(done: float, text: str = "") -> None:
    nonlocal last, first
    first = done if first is None else first
    moment = time.monotonic()
    if moment - last < _LOG_SECONDS:
      return
    last, gained = moment, done - first
    left = (moment - start) * (1 - done) / gained if gained > 0 else float("inf")
    print(f"{title}: {100 * done:.0f} %, {text}, ETA {left:.0f} s", file=sys.stderr, flush=True)

  return update
