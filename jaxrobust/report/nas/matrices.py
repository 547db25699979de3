"""Confusion and confidence of cells as figures (arXiv:2306.06712, appendix A.5 and A.6): reading and drawing them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrobust.core.errors import CorruptFileError
from jaxrobust.core.reading import read_json, reading
from jaxrobust.report.plots import COLORS, label

CLEAN, NORM = "clean", "@Linf"


class Confidence(NamedTuple):
  """Mean confidences of cells, first on clean images, then under an attack by rising budget.

  Attributes:
    attack: its key.
    places: names of the columns.
    label: (cells, columns, classes) probability of the true class, by true class.
    argmax: (cells, columns, classes) probability of the predicted class, by that class.
    right, wrong: (cells, columns) of predictions; NaN where there are none.
  """

  attack: str
  places: tuple[str, ...]
  label: np.ndarray
  argmax: np.ndarray
  right: np.ndarray
  wrong: np.ndarray


def _files(folder: str | Path, data: str, measurement: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
  """Yields key and rows by cell of the clean file and those of attacks."""
  for file in sorted((Path(folder) / data).glob(f"*_{measurement}.json")):
    key = file.name.removesuffix(f"_{measurement}.json")
    if key == CLEAN or NORM in key:
      with reading(f"{file}: not a file of {measurement} by cell"):
        rows = read_json(file)[data][key][measurement]
        if not rows:
          raise CorruptFileError(f"{file}: no cells")
        yield key, rows


def read_confusions(folder: str | Path, data: str) -> dict[str, np.ndarray]:
  """Returns mean confusion matrices over cells by key: clean, and each attack at its middle budget."""
  found = {}
  for key, rows in _files(folder, data, "cm"):
    mean = np.mean([np.asarray(row, float) for row in rows.values()], axis=0)
    found[key] = mean if mean.ndim == 2 else mean[len(mean) // 2]
  return found


def read_confidences(folder: str | Path, data: str) -> list[Confidence]:
  """Returns for each attack the confidences of the cells that have all of them, clean and at each budget."""
  files = dict(_files(folder, data, "confidence"))
  clean, found = files.pop(CLEAN, None), []
  if clean is None or not files:
    return []
  budgets = read_json(Path(folder) / "meta.json")["epsilons"]
  for key, rows in files.items():
    cells = [cell for cell in ([clean.get(uid), *row] for uid, row in rows.items()) if None not in cell]
    if not cells:
      continue
    with reading(f"{folder}: damaged confidences under {key}"):
      label, argmax = (
        np.array([[np.diag(np.asarray(one[name], float)) for one in cell] for cell in cells])
        for name in ("label", "argmax")
      )
      both = np.array([[one["prediction"] for one in cell] for cell in cells], float)
    places = (CLEAN, *(f"{budget:g}/255" for budget in budgets[key]))
    found.append(Confidence(key, places, label, argmax, both[..., 0], both[..., 1]))
  return found


def draw_confusions(plt: Any, found: Mapping[str, np.ndarray]) -> tuple[Any, list[dict[str, Any]]]:
  """Draws mean confusion matrices side by side; their shares of each true class are the numbers."""
  figure, grid = plt.subplots(1, len(found), figsize=(2.2 * len(found), 2.6), squeeze=False)
  rows = []
  for axes, (title, matrix) in zip(grid[0], found.items(), strict=True):
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1e-12)
    axes.imshow(shares, vmin=0, vmax=1, cmap="viridis")
    axes.grid(visible=False)
    every = range(0, len(matrix), max(1, len(matrix) // 10))
    axes.set_xticks(every, every, fontsize=5)
    axes.set_yticks(every, every, fontsize=5)
    axes.set_title(label(title, 24), fontsize=7)
    axes.set_xlabel("predicted", fontsize=6)
    axes.set_ylabel("true", fontsize=6)
    for true, row in enumerate(shares.tolist()):
      rows.append({"key": title, "true": true, **{f"as {place}": share for place, share in enumerate(row)}})
  return figure, rows


def draw_clean_confidences(plt: Any, found: Sequence[Confidence]) -> tuple[Any, list[dict[str, Any]]]:
  """Draws clean confidence by true class, by predicted class, and of right and wrong predictions."""
  one = found[0]
  classes = range(one.label.shape[2])
  figure, grid = plt.subplots(1, 3, figsize=(9.0, 2.8))
  _boxes(grid[0], one.label[:, 0], classes, "by true class")
  _boxes(grid[1], one.argmax[:, 0], classes, "by predicted class")
  _boxes(
    grid[2], np.stack([one.right[:, 0], one.wrong[:, 0]], 1), ("right", "wrong"), f"predictions, {len(one.right)} cells"
  )
  means = zip(_means(one.label[:, 0]).tolist(), _means(one.argmax[:, 0]).tolist(), strict=True)
  return figure, [{"class": at, "as true": true, "as predicted": said} for at, (true, said) in enumerate(means)]


def draw_attacked_confidences(plt: Any, found: Sequence[Confidence]) -> tuple[Any, list[dict[str, Any]]]:
  """Draws for each attack the confidence in the first class by budget, and of right against wrong predictions."""
  figure, grid = plt.subplots(len(found), 2, figsize=(6.2, 2.8 * len(found)), squeeze=False)
  rows = []
  for row, one in zip(grid, found, strict=True):
    _boxes(row[0], one.label[:, :, 0], one.places, f"class 0 under {label(one.attack, 20)}")
    first, right, wrong = (_means(values) for values in (one.label[:, :, 0], one.right, one.wrong))
    row[1].plot(right, wrong, color=COLORS[0], marker="o", markersize=3, linewidth=1)
    for x, y, place in zip(right, wrong, one.places, strict=True):
      row[1].annotate(place.removesuffix("/255"), (x, y), fontsize=5, xytext=(2, 2), textcoords="offset points")
    row[1].set_xlabel("confidence of right predictions", fontsize=6)
    row[1].set_ylabel("of wrong ones", fontsize=6)
    row[1].set_title(f"{label(one.attack, 20)}, {len(one.right)} cells", fontsize=7)
    for place, *values in zip(one.places, first.tolist(), right.tolist(), wrong.tolist(), strict=True):
      rows.append(
        {"attack": one.attack, "budget": place, **dict(zip(("class 0", "right", "wrong"), values, strict=True))}
      )
  return figure, rows


def _boxes(axes: Any, values: np.ndarray, names: Sequence[Any], title: str) -> None:
  axes.boxplot([column[np.isfinite(column)] for column in values.T], showfliers=False, widths=0.6)
  axes.set_xticks(range(1, len(names) + 1), names, rotation=60, ha="right", fontsize=5)
  axes.set_ylim(0, 1)
  axes.set_ylabel("confidence", fontsize=6)
  axes.set_title(title, fontsize=7)


def _means(values: np.ndarray) -> np.ndarray:
  """Returns the mean over cells of each column, NaN where no cell has a number."""
  there = np.isfinite(values)
  return np.where(there, values, 0.0).sum(0) / np.where(there.any(0), there.sum(0), np.nan)
