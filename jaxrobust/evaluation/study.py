"""Judging the networks of a study alike, and the numbers with and without a technique that follow from their cells.

Every network gets a clean cell, PGD-20 and MM5, and a clean cell under each of the fifteen corruptions at each of five
severities, whose mean is its corruption accuracy. The noisy images are made once and shared by all networks. All is
read from cells: a study that was stopped, or whose networks were trained elsewhere, shows what there is.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.core.files import atomic_write
from jaxrobust.data.registry import load_data
from jaxrobust.data.source import ArraySource
from jaxrobust.evaluation.conditions import under
from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.runner import RunOptions
from jaxrobust.evaluation.suites import attack_entry, clean_entry
from jaxrobust.models.zoo import load_classifier
from jaxrobust.noises.tables import BENCHMARK
from jaxrobust.results import Result, load_results
from jaxrobust.results.cell import safe_name
from jaxrobust.training.logs import read_log

RESULTS_FOLDER = "results"
METRICS = ("clean", "pgd-20", "mm5", "corruptions")
INDEX = "study.json"
SEVERITIES = (1, 2, 3, 4, 5)


@dataclasses.dataclass(frozen=True)
class Judging:
  """On which data and with which budget networks are judged; `n` 0 is all examples."""

  data: str = "digits32"
  norm: str = "linf"
  eps: str = "8/255"
  n: int = 0
  corruptions: tuple[str, ...] = BENCHMARK
  severities: tuple[int, ...] = SEVERITIES

  @property
  def conditions(self) -> Iterator[str]:
    return (f"{name}-{severity}" for name in self.corruptions for severity in self.severities)


@dataclasses.dataclass(frozen=True, eq=False)
class Remembered(ArraySource):
  """A data set under a condition, held as the bytes it consists of."""

  condition: str = "clean"
  original: str = ""

  def fingerprint(self) -> str:
    return self.original


class Judge:
  """Evaluates networks into one results folder; noisy images are kept between networks."""

  def __init__(self, judging: Judging, out: str | Path, options: RunOptions):
    self.judging, self.out, self.options = judging, Path(out) / RESULTS_FOLDER, options
    data = load_data(judging.data)
    self.data = data.subset(judging.n) if judging.n else data
    self._noisy: dict[str, Remembered] = {}

  def __call__(self, name: str, folder: str | Path) -> None:
    """All cells of one network."""
    judging, classifier = self.judging, load_classifier(folder)
    attacks = [
      clean_entry(),
      attack_entry("pgd", judging.eps, norm=judging.norm, num_steps=20),
      attack_entry("mm5", judging.eps, norm=judging.norm),
    ]
    evaluate(classifier, self.data, attacks, name=name, out=self.out, options=self.options)
    for condition in judging.conditions:
      evaluate(classifier, self._under(condition), [clean_entry()], name=name, out=self.out, options=self.options)

  def _under(self, condition: str) -> Remembered:
    if condition not in self._noisy:
      source = under(self.data, condition, self.options.seed)
      images, labels = source.take(np.arange(len(source)))
      # Corrupted images have 256 grey levels: nothing is lost.
      self._noisy[condition] = Remembered(
        source.name,
        np.round(images * 255).astype(np.uint8),
        labels,
        source.num_classes,
        condition=source.condition,  # type: ignore[attr-defined]
        original=source.fingerprint(),
      )
    return self._noisy[condition]


def save_index(out: str | Path, study: str, judging: Judging, runs: Sequence[Mapping[str, Any]]) -> None:
  """What the study consists of: name, group and opponent of each run, for tables made later."""
  document = {"study": study, "judging": dataclasses.asdict(judging), "runs": [dict(run) for run in runs]}
  atomic_write(Path(out) / INDEX, json.dumps(document, indent=2) + "\n")


def read_index(out: str | Path) -> dict[str, Any]:
  """The index of a study's folder."""
  path = Path(out) / INDEX
  try:
    return json.loads(path.read_text())
  except FileNotFoundError:
    raise InputError(f"{out} holds no study: there is no {INDEX}") from None


def network_metrics(results: Sequence[Result], conditions: int) -> dict[str, float]:
  """The metrics of one network from its cells; what is not complete is left out."""
  found: dict[str, float] = {}
  noisy = []
  for result in results:
    accuracy = float(result.summary["robust_accuracy"])
    if result.cell.condition != "clean":
      noisy.append(accuracy)
    elif result.cell.attack == "none":
      found["clean"] = accuracy
    else:
      found["pgd-20" if "pgd-20" in result.cell.attack else "mm5"] = accuracy
  if conditions and len(noisy) == conditions:
    found["corruptions"] = float(np.mean(noisy))
  return found


def _cells_of(name: str, root: Path) -> list[Result]:
  """The cells of one network."""
  folder = root / safe_name(name)
  return list(load_results(folder, on_error=print)) if folder.is_dir() else []


def study_rows(out: str | Path, known: dict[str, dict[str, float]] | None = None) -> list[dict[str, Any]]:
  """One row per group: mean and standard deviation over its runs of each metric, and the gain over its opponent.

  `known` remembers the metrics of networks with all their cells, so that these are read once when it is passed again.
  """
  index, root = read_index(out), Path(out) / RESULTS_FOLDER
  judging = index["judging"]
  conditions = len(judging["corruptions"]) * len(judging["severities"])
  known = {} if known is None else known
  groups: dict[str, dict[str, Any]] = {}
  for run in index["runs"]:
    if run["judged"]:
      group = groups.setdefault(run["group"], {"group": run["group"], "against": run["against"], "runs": []})
      seconds = sum(entry.get("seconds", 0.0) for entry in read_log(Path(out) / "models" / run["name"] / "train.jsonl"))
      metrics = known.get(run["name"]) or network_metrics(_cells_of(run["name"], root), conditions)
      if len(metrics) == len(METRICS) - (not conditions):
        known[run["name"]] = metrics
      if metrics:
        group["runs"].append({**metrics, "seconds": seconds})
  for group in groups.values():
    group["metrics"] = {name: _spread([run[name] for run in group["runs"] if name in run]) for name in METRICS}
    group["seconds"] = _spread([run["seconds"] for run in group["runs"]])
  for group in groups.values():
    other = groups.get(group["against"])
    group["gain"] = {name: _gain(group["metrics"][name], other["metrics"][name] if other else None) for name in METRICS}
  return list(groups.values())


def _spread(values: Sequence[float]) -> tuple[float, float] | None:
  """Mean and standard deviation (of a sample) of some runs.

  >>> _spread([1.0, 3.0])
  (2.0, 1.4142135623730951)
  """
  if not values:
    return None
  return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _gain(ours: tuple[float, float] | None, theirs: tuple[float, float] | None) -> float | None:
  return None if ours is None or theirs is None else ours[0] - theirs[0]
