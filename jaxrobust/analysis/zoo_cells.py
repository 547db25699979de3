"""A zoo from the cells of a results folder: each model without a shift, and under every shift that was measured.

Corruptions are averaged over their severities and then together (R_c), natural shifts together (R_n), unforeseen
attacks together (OOD_t); OOD_d = (R_c + R_n) / 2 and OOD = (OOD_d + OOD_t) / 2 as in OODRobustBench, eq. 1-3
(arXiv:2310.12793). An average that lacks some of the paper's conditions says so in its name, `R_c[8 of 75]`, and gives
no OOD_d or OOD; so does one of more conditions than the paper's. A model that lacks a condition which others have gets
no number, and the zoo's notes say which: averages over different sets do not mix.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from jaxrobust.analysis.sizes import with_flops
from jaxrobust.analysis.zoo import ACCURACY, ID, ROBUSTNESS, Zoo
from jaxrobust.analysis.zoo_places import (
  GROUP_MEANS,
  Measured,
  accuracy_of,
  attacks_of,
  choose_cells,
  largest,
  place_cells,
)
from jaxrobust.results import Result, load_results
from jaxrobust.results.exchange.oodrobustbench import base_of
from jaxrobust.results.folder import open_folder
from jaxrobust.results.rows import describe_model

# How many conditions the paper averages: 15 corruptions × 5 severities, natural shifts, unforeseen attacks.
WHOLE = {"R_c": 75, "R_n": 4, "OOD_t": 6}
# At the head of an attack's id: the network that it is bounded by, with the fingerprint of its weights.
_NETWORK = re.compile(r"lpips-(.+\.[0-9a-f]{6})-")
PUBLISHED = "alexnet."


def read_cells(root: str | os.PathLike, data: str = "", attack: str = "", date: str = "") -> Zoo:
  """Reads a zoo from a results folder or address.

  Args:
    root: of the results.
    data: what the models were trained for; empty where the folder holds only one such data set and its shifts.
    attack: a shell pattern of the attack and budget that stands for ID robustness, such as `linf-mm5@8/255`; empty
      where only one was used both without and under a shift. Without any, the zoo has accuracies alone.
    date: of the results; the day the last local file was changed where none is given.

  Returns:
    The zoo; its notes name damaged files and cells with different numbers of examples.
  """
  problems: list[str] = []
  results = list(load_results(root, lambda error: problems.append(str(error))))
  zoo = cells_zoo(results, data, attack)
  day = date or last_change(root)
  return Zoo(zoo.models, zoo.columns, zoo.labels, f"{os.fspath(root)}: {zoo.source}", day, (), (*problems, *zoo.notes))


def cells_zoo(results: Iterable[Result], data: str = "", attack: str = "") -> Zoo:
  """Makes a zoo of cells; of those that differ only in n and seed, the one with most examples counts.

  Args:
    results: cells of any models, data, attacks and conditions.
    data: as for `read_cells`.
    attack: as for `read_cells`.

  Returns:
    The zoo, without a date.
  """
  return _zoo(*choose_cells(results, data, attack))


def cells_zoos(results: Iterable[Result]) -> list[Zoo]:
  """Makes every zoo that cells allow: one per data set, and per attack that was used both without and under a shift.

  Args:
    results: cells of any models, data, attacks and conditions.

  Returns:
    Zoos of at least three models, without dates.
  """
  best = largest(results)
  sets = {result.cell.data.partition("-c:")[0] for result in best}
  zoos = []
  for base in sorted({base_of(name, sets) for name in sets}):
    here, there = attacks_of([result.cell for result in best], base)
    zoos += [_zoo(best, base, threat) for threat in sorted(here & there) or [""]]
  return [zoo for zoo in zoos if len(zoo) > 2]


def _zoo(best: Sequence[Result], base: str, threat: str) -> Zoo:
  placed, notes = place_cells(best, base, threat)
  table = {
    place: {model: 100.0 * (accuracy_of(result) or 0.0) for model, result in results.items()}
    for place, results in placed.items()
  }
  sizes: dict[str, set[int]] = {}
  for place, results in placed.items():
    sizes.setdefault(place.group, set()).update(result.cell.n for result in results.values())
  models = tuple(sorted({model for values in table.values() for model in values}))
  notes += [f"{group}: cells of {', '.join(map(str, sorted(n)))} examples" for group, n in sizes.items() if len(n) > 1]
  notes += _lacking(placed)
  columns = _columns(table, models)
  abouts = with_flops({result.cell.model: describe_model(result.config, result.provenance) for result in best})
  for size in ("params", "flops"):
    values = np.array([_or_nan(abouts[model][size]) for model in models])
    if np.isfinite(values).any():
      columns[size] = values
  labels = {name: tuple(abouts[model][name] or "" for model in models) for name in ("arch", "family", "technique")}
  sources = {result.cell.model: result.provenance.get("source") for result in best}
  labels["source"] = tuple(str(sources[model] or "") for model in models)
  return Zoo(models, columns, labels, f"{base}, {threat or 'no attack'}", "", (), tuple(notes))


def _columns(table: dict[Measured, dict[str, float]], models: tuple[str, ...]) -> dict[str, np.ndarray]:
  rows = {place: np.array([values.get(model, np.nan) for model in models]) for place, values in table.items()}
  columns: dict[str, np.ndarray] = {}
  for kind in (ACCURACY, ROBUSTNESS):
    of_kind = {place: values for place, values in rows.items() if place.kind == kind}
    shifts = dict.fromkeys(place.shift for place in of_kind)
    # NaN spreads: a model that lacks one condition of a mean gets no mean.
    for shift in sorted(shifts, key=lambda name: (name != ID, name)):
      columns[f"{shift} {kind}"] = np.mean([v for place, v in of_kind.items() if place.shift == shift], axis=0)
    whole = {mean: columns[f"{mean} {kind}"] for mean in GROUP_MEANS.values() if mean in shifts}
    for group, wanted in WHOLE.items():
      parts = [
        values for place, values in of_kind.items() if place.group == group and place.shift not in GROUP_MEANS.values()
      ]
      if parts:
        mean = np.mean(parts, axis=0)
        marks = [*_stand_ins(of_kind, group), *_count(len(parts), wanted)]
        note = f"[{', '.join(marks)}]" if marks else ""
        columns[f"{group}{note} {kind}"] = mean
        if not marks:
          whole[group] = mean
    if {"R_c", "R_n"} <= set(whole):
      whole["OOD_d"] = columns[f"OOD_d {kind}"] = (whole["R_c"] + whole["R_n"]) / 2
    if {"OOD_d", "OOD_t"} <= set(whole):
      columns[f"OOD {kind}"] = (whole["OOD_d"] + whole["OOD_t"]) / 2
  return columns


def _count(parts: int, wanted: int) -> list[str]:
  return [] if parts == wanted else [f"{parts} of {wanted}" if parts < wanted else f"{parts}, not {wanted}"]


def _lacking(placed: Mapping[Measured, Mapping[str, Result]]) -> list[str]:
  """Says which models have no average because others have conditions that they lack, and what these are."""
  notes = []
  for group, kind in dict.fromkeys((place.group, place.kind) for place in placed if place.group in WHOLE):
    places = {place: set(cells) for place, cells in placed.items() if (place.group, place.kind) == (group, kind)}
    every = set().union(*places.values())
    if lacking := {place.condition: every - models for place, models in places.items() if every - models}:
      models, conditions = len(set().union(*lacking.values())), list(lacking)
      more = f" and {len(conditions) - 3} more" if len(conditions) > 3 else ""
      notes.append(f"{group} {kind}: none for {models} of {len(every)}, which lack {', '.join(conditions[:3])}{more}")
  return notes


def _stand_ins(places: Iterable[Measured], group: str) -> list[str]:
  """Returns the networks of perceptual attacks that stand in for those of the paper: their means are others."""
  found = {match[1] for place in places if place.group == group and (match := _NETWORK.match(place.shift))}
  return sorted(network for network in found if not network.startswith(PUBLISHED))


def _or_nan(value: int | None) -> float:
  return float("nan") if value is None else float(value)


def last_change(root: str | os.PathLike) -> str:
  """Returns the day on which the last cell of a local folder was changed; nothing for other addresses."""
  folder = Path(root)
  # As results are read: through links too.
  files = open_folder(root).files() if folder.is_dir() else ()
  times = [(folder / file.path).stat().st_mtime for file in files if file.path.endswith(".json")]
  return datetime.datetime.fromtimestamp(max(times), datetime.UTC).date().isoformat() if times else ""
