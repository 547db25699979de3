"""Run by test_readers in a process of its own: reads every input it is told of, and says what came of each.

Lines in: a kind and a path. Lines out: JSON with the outcome, the CPU seconds, and the most memory so far.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from jaxrobust.core.budget import Budget
from jaxrobust.core.errors import JaxrobustError


def _data(name: str) -> None:
  from jaxrobust.data.registry import load_data

  source = load_data(name)
  source.fingerprint()
  source.take(np.arange(len(source)))


def _cell(path: str) -> None:
  from jaxrobust.report.report import write_report
  from jaxrobust.results import load_results

  list(load_results(path, lambda error: None))
  write_report(path, Path(path) / "site")


def _study(path: str) -> None:
  from jaxrobust.evaluation.studies.rows import study_rows
  from jaxrobust.pods.store import read_rows
  from jaxrobust.report.report import write_report

  read_rows(Path(path) / "programs.jsonl")
  write_report(f"{path}/results", Path(path) / "site")
  study_rows(path)


def _archive(path: str) -> None:
  from jaxrobust.data.encoded import EncodedSource
  from jaxrobust.data.stores import TarStore

  store = TarStore(path)
  source = EncodedSource("archive", store, store.names, np.zeros(len(store.names), np.int32), 2)
  source.fingerprint()
  source.take(np.arange(len(source)))


def _exchange(path: str) -> None:
  """Every format; the first refusal is that of the input."""
  from jaxrobust.nas.table import load_table
  from jaxrobust.results.exchange import import_results

  refusals = []
  for name in ("robustbench", "oodrobustbench", "nas", "table"):
    place = path if name in ("nas", "table") else f"{path}/one/{name}.json"
    try:
      load_table(place) if name == "table" else import_results(name, place, f"{path}/cells")
    except JaxrobustError as error:
      refusals.append(error)
  if refusals:
    raise refusals[0]


def read(kind: str, path: str) -> None:
  """Reads one input the way a command would."""
  if kind == "weights":
    from jaxrobust.models.weights.weight_files import read_weights

    read_weights(path)
  elif kind in ("npz", "picture"):
    _data(f"npz:{path}" if kind == "npz" else f"folder:{path}")
  elif kind == "cifar":
    from jaxrobust.data.cifar import read_pickle

    read_pickle(Path(path))
  elif kind == "idx":
    from jaxrobust.data.small import read_idx

    read_idx(Path(path))
  elif kind == "classifier":
    from jaxrobust.models.zoo import load_classifier

    load_classifier(path)
  elif kind == "archive":
    _archive(path)
  elif kind == "cell":
    _cell(path)
  elif kind == "exchange":
    _exchange(path)
  elif kind == "partial":
    from jaxrobust.results.partial import load_partial

    load_partial(path, {"a": 1})
  elif kind == "log":
    from jaxrobust.training.logs import read_log

    read_log(path)
  elif kind == "study":
    _study(path)
  elif kind == "table":
    from jaxrobust.analysis.zoo import read_csv

    read_csv(path)
  else:
    Budget.parse(Path(path).read_text(errors="replace"), "linf")


def outcome(kind: str, path: str) -> str:
  """What came of one input: `read`, `refused`, or the traceback's name where nobody caught it."""
  try:
    read(kind, path)
  except JaxrobustError as error:
    return "refused" if "\n" not in str(error) and len(str(error)) < 2000 else f"not one line: {str(error)[:200]!r}"
  except BaseException as error:
    return f"traceback {type(error).__name__}: {str(error)[:200]}"
  return "read"


def main() -> None:
  import jaxrobust.data.registry
  import jaxrobust.models.zoo
  import jaxrobust.report.report  # noqa: F401 - all of it, for the memory of an idle process

  warnings.simplefilter("ignore")
  print(json.dumps({"idle": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}), flush=True)
  for line in sys.stdin:
    kind, path = json.loads(line)
    began = time.process_time()
    found = outcome(kind, path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"outcome": found, "seconds": time.process_time() - began, "peak": peak}), flush=True)


if __name__ == "__main__":
  main()
