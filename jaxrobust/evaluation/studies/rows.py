"""The numbers of a study, with and without a technique, read from its cells.

A study that was stopped, or whose networks were trained elsewhere, shows what there is.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.core.condition import parse_corruption
from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.core.files import atomic_write
from jaxrobust.core.reading import read_file, read_json, reading
from jaxrobust.core.terminal import say
from jaxrobust.evaluation.studies.evaluator import RESULTS_FOLDER, EvalSpec
from jaxrobust.evaluation.studies.runs import MODELS_FOLDER
from jaxrobust.results import Result, load_results
from jaxrobust.results.cell import safe_name
from jaxrobust.results.metrics import SUMMARY, SummaryFile, parse_summary
from jaxrobust.training.logs import read_log

METRICS = ("clean", "pgd-20", "mm5", "corruptions")
STUDY_FILE = "study.json"
HELD_OUT = ("clean", "robust")


def save_index(out: str | Path, study: str, spec: EvalSpec, runs: Sequence[Mapping[str, Any]]) -> None:
  """Stores what the study consists of: name, group and opponent of each run, for tables made later."""
  document = {"study": study, "judging": dataclasses.asdict(spec), "runs": [dict(run) for run in runs]}
  atomic_write(Path(out) / STUDY_FILE, json.dumps(document, indent=2) + "\n")


def read_index(out: str | Path) -> dict[str, Any]:
  """Reads the index of a study's folder."""
  path = Path(out) / STUDY_FILE
  if not path.exists():
    raise InputError(f"{out} holds no study: there is no {STUDY_FILE}")
  index = read_json(path)
  if not isinstance(index, dict) or not {"judging", "runs"} <= index.keys():
    raise CorruptFileError(f"{path}: not the index of a study")
  return index


def network_metrics(results: Sequence[Result], judging: Mapping[str, Any]) -> dict[str, float]:
  """Returns the metrics of one network from its cells, of suites too; what is not complete is left out.

  Args:
    results: cells of one network, also under other attacks, budgets and conditions than those of the table.
    judging: the fields of an `EvalSpec`.
  """
  threat = f"{judging['norm']}-{{}}@{judging['eps']}"
  titles = {"none": "clean", threat.format("pgd-20"): "pgd-20", threat.format("mm5"): "mm5"}
  wanted = {(name, severity) for name in judging["corruptions"] for severity in judging["severities"]}
  found: dict[str, float] = {}
  noisy: dict[tuple[str, int], float] = {}
  # A name may stand for data that calls itself otherwise.
  for result in [one for one in results if one.cell.data == judging["data"]] or results:
    cell, accuracy = result.cell, float(result.summary["robust_accuracy"])
    corruption = parse_corruption(cell.condition)
    if cell.condition == "clean" and cell.id in titles:
      found[titles[cell.id]] = accuracy
    elif cell.attack == "none" and corruption in wanted:
      noisy[corruption] = accuracy
  if wanted and len(noisy) == len(wanted):
    found["corruptions"] = float(np.mean(list(noisy.values())))
  return found


def suite_metrics(folder: Path, n: int = 0) -> dict[str, float]:
  """Returns the metrics of a network by each suite it was judged by; what is partial is no number to compare.

  Args:
    folder: of the network's results.
    n: of summaries those of so many examples; 0 for the most complete of each suite.
  """
  best: dict[str, SummaryFile] = {}
  for path in sorted(folder.glob(f"*{SUMMARY}")):
    try:
      summary = parse_summary(path.name, read_file(path))
    except CorruptFileError as error:
      raise CorruptFileError(f"{path}: {error}") from None
    other = best.get(summary.suite)
    if summary.n in (n or summary.n, None) and (other is None or summary.completeness > other.completeness):
      best[summary.suite] = summary
  known = [item for summary in best.values() for item in summary.metrics.items()]
  return {name: metric.value for name, metric in known if not metric.partial}


def _cells_of(name: str, root: Path) -> list[Result]:
  """Reads the cells of one network."""
  folder = root / safe_name(name)
  return list(load_results(folder, on_error=say)) if folder.is_dir() else []


def study_rows(out: str | Path, known: dict[str, dict[str, float]] | None = None) -> list[dict[str, Any]]:
  """Returns a row per group: mean and standard deviation of each metric over its runs, and the gain over its opponent.

  Curves over epochs are those of the held-out examples (ARES-Bench's figure 6), where some were held out.
  `known` remembers the metrics of networks with all their cells, so that these are read once when it is passed again.
  """
  index = read_index(out)
  with reading(f"{Path(out) / STUDY_FILE}: not the index of a study"):
    return _rows(index, Path(out), {} if known is None else known)


def _rows(index: Mapping[str, Any], out: Path, known: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
  spec, root = index["judging"], out / RESULTS_FOLDER
  whole = len(METRICS) - (not spec["corruptions"] or not spec["severities"])
  groups: dict[str, dict[str, Any]] = {}
  for run in index["runs"]:
    if run["judged"]:
      group = groups.setdefault(run["group"], {"group": run["group"], "against": run["against"], "runs": []})
      log = read_log(out / MODELS_FOLDER / run["name"] / "train.jsonl")
      seconds = sum(entry.get("seconds", 0.0) for entry in log)
      metrics = known.get(run["name"]) or network_metrics(_cells_of(run["name"], root), spec)
      if len(metrics) == whole:
        known[run["name"]] = metrics
      judged = suite_metrics(root / safe_name(run["name"]), spec.get("n", 0)) if spec.get("suite") else {}
      if metrics or judged:
        group["runs"].append({**metrics, "seconds": seconds, "suite": judged, "epochs": held_out(log)})
  for group in groups.values():
    group["metrics"] = {name: _spread([run[name] for run in group["runs"] if name in run]) for name in METRICS}
    names = dict.fromkeys(name for run in group["runs"] for name in run["suite"])
    group["suite"] = {
      name: _spread([run["suite"][name] for run in group["runs"] if name in run["suite"]]) for name in names
    }
    group["seconds"] = _spread([run["seconds"] for run in group["runs"]])
    group["epochs"] = {name: _mean_curve([run["epochs"][name] for run in group["runs"]]) for name in HELD_OUT}
  for group in groups.values():
    other = groups.get(group["against"])
    against = other["suite"] if other else {}
    group["suite_gain"] = {name: _gain(value, against.get(name)) for name, value in group["suite"].items()}
    group["gain"] = {name: _gain(group["metrics"][name], other["metrics"][name] if other else None) for name in METRICS}
  return list(groups.values())


def held_out(log: Sequence[Mapping[str, Any]]) -> dict[str, dict[float, float]]:
  """Returns the accuracies on held-out examples after each epoch, from the log of a run.

  >>> held_out([{"step": 9, "loss": 1.0}, {"step": 9, "epoch": 1, "clean": 0.5, "robust": 0.25}])
  {'clean': {1.0: 0.5}, 'robust': {1.0: 0.25}}
  """
  validations = [entry for entry in log if all(isinstance(entry.get(key), int | float) for key in ("epoch", *HELD_OUT))]
  return {name: {float(entry["epoch"]): float(entry[name]) for entry in validations} for name in HELD_OUT}


def _mean_curve(curves: Sequence[Mapping[float, float]]) -> list[tuple[float, float]]:
  """Returns the mean over runs at every epoch that all of them have."""
  shared = sorted(set.intersection(*map(set, curves))) if curves else []
  return [(epoch, float(np.mean([curve[epoch] for curve in curves]))) for epoch in shared]


def _spread(values: Sequence[float]) -> tuple[float, float] | None:
  """Returns mean and standard deviation (of a sample) of some runs.

  >>> _spread([1.0, 3.0])
  (2.0, 1.4142135623730951)
  """
  if not values:
    return None
  return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _gain(ours: tuple[float, float] | None, theirs: tuple[float, float] | None) -> float | None:
  return None if ours is None or theirs is None else ours[0] - theirs[0]
