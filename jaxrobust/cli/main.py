"""The `jaxrobust` command.

Exit codes: 0 done; 1 an unexpected error; 2 bad input or an unknown name; 3 files that are unwritable, damaged
or hold another configuration; 4 an attack left its threat model; 5 training broke
down; 6 a program does not fit a slice, or communicates where it should not; 75 asked to stop (SIGTERM), saved and to
be continued; 76 another process of the run is gone; 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys

if hasattr(signal, "pthread_sigmask") and (__name__ == "__main__" or os.path.basename(sys.argv[0]) == "jaxrobust"):
  signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1})

import importlib

from jaxrobust.cli.machine import prepare
from jaxrobust.core.errors import JaxrobustError, first_line
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.stopping import INTERRUPTED, STOPPED, TEXTS, StopRequest, Terminated, watch_signals
from jaxrobust.core.terminal import printable

COMMANDS = {
  "evaluate": "a suite of attacks on a classifier, as cells on disk and a table",
  "certify": "what no attack can do: certified accuracy and radii, as a cell on disk",
  "reproduce": "one cell again: does every verdict match?",
  "transfer": "adversarial images of each classifier, shown to all others",
  "attack": "adversarial images for a data set, written to an npz file",
  "train": "one classifier, from a laptop to a pod; stopped runs continue where they were",
  "study": "the runs of a study: list, train and judge them all, a table from their cells",
  "nas": "cells of NAS-Bench-201: train and attack many by one program, search, measure, compare, figures",
  "run": "train classifiers and evaluate them, from one config",
  "convert": "weights of a PyTorch checkpoint, as a classifier",
  "report": "tables, plots and the leaderboard page of a results folder",
  "trends": "what ID robustness says about shifts: lines, limits, effective robustness, ranks, correlations",
  "results": "SQL over a results folder, local or in object storage; import and export",
  "cascade": "which attacks to run, in which order: built from the flags and costs of stored cells",
  "list": "attacks, corruptions, models, data sets, suites, or the trained networks that ship with the package",
  "data": "what a data set is, whether it is complete, and how to get it",
  "compile": "programs for slices of accelerators, by their own compilers: fit, cost, traffic, predicted speed",
  "bench": "speed and efficiency, beside other implementations where installed",
}

# Those whose time goes into networks; the others are over before it would pay to prepare.
COMPUTING = ("evaluate", "certify", "reproduce", "transfer", "attack", "train", "study", "nas", "run", "bench")


def main(argv: list[str] | None = None) -> int:
  """Runs one command and returns its exit code; expected errors are one line on standard error."""
  words = sys.argv[1:] if argv is None else argv
  if argv is None:
    watch_signals()
  if argv is None and words and words[0] in COMPUTING:
    prepare(words)
  # Warnings of the runtime underneath would bury our own output.
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
  if not words or words[0] in ("-h", "--help", "help"):
    print("usage: jaxrobust COMMAND [OPTIONS]\n")
    print("\n".join(f"  {name:<10} {text}" for name, text in COMMANDS.items()))
    print("\njaxrobust COMMAND --help lists a command's options.")
    return 0
  if words[0] == "--version":
    from importlib.metadata import version

    print(version("jaxrobust"))
    return 0
  try:
    if words[0] not in COMMANDS:
      raise unknown_name("command", words[0], sorted(COMMANDS))
    with StopRequest(at_once=True):
      return importlib.import_module(f"jaxrobust.cli.{words[0]}").run(words[1:]) or 0
  except JaxrobustError as error:
    print(f"error: {printable(error)}", file=sys.stderr)
    return error.exit_code
  except MemoryError as error:
    print(f"error: out of memory: {printable(first_line(error))}", file=sys.stderr)
    return 1
  except Terminated:
    print(TEXTS[STOPPED], file=sys.stderr)
    return STOPPED
  except KeyboardInterrupt:
    print(TEXTS[INTERRUPTED], file=sys.stderr)
    return INTERRUPTED
  except BrokenPipeError:
    # The reader of our output has gone (`| head`); nothing is wrong.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
  sys.exit(main())
