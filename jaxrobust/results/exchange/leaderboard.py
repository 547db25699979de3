"""OODRobustBench's leaderboard (https://oodrobustbench.github.io) as a CSV file, DATASET_THREAT in its name.

  Rank,Method,ID clean acc.,ID robust acc.,OOD robust acc.,OOD-D clean acc.,OOD-D robust acc.,OOD-T robust acc.,…,Arch.

Percent as text. ID robustness is MM5's in the threat model of training; OOD-D and OOD-T are means over shifts (arXiv:
2310.12793, section 3), stored under the conditions `ood-d-mean` and `ood-t-mean`; the OOD column is their mean and is
not stored. The file names no network, only papers, so models are called by title and architecture.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from jaxrobust.core.errors import CorruptFileError, StorageError
from jaxrobust.core.reading import LARGEST_TEXT, read_file
from jaxrobust.core.terminal import csv_text
from jaxrobust.results.cell import Result
from jaxrobust.results.exchange.common import EXAMPLES, NORMS, OTHERS, Record, architecture, describe, fraction

SOURCE = "OODRobustBench leaderboard"
DATASET_SHIFT, THREAT_SHIFT = "ood-d-mean", "ood-t-mean"
# The mean over six attacks is under none of them.
UNFORESEEN = "unforeseen-mean"
BUDGETS = {("cifar10", "Linf"): "8/255", ("cifar10", "L2"): "0.5", ("imagenet", "Linf"): "4/255"}
# Column -> (condition, whether under an attack).
COLUMNS = {
  "ID clean acc.": ("clean", False),
  "ID robust acc.": ("clean", True),
  "OOD-D clean acc.": (DATASET_SHIFT, False),
  "OOD-D robust acc.": (DATASET_SHIFT, True),
  "OOD-T robust acc.": (THREAT_SHIFT, True),
}
_NAME = re.compile(r"(cifar10|imagenet)_(Linf|L2)", re.IGNORECASE)


def read(path: Path) -> Iterator[Record]:
  """Records of a file, or of a folder of them."""
  if not path.exists():
    raise StorageError(f"cannot read {path}: no such file or folder")
  for file in sorted(path.rglob("*.csv")) if path.is_dir() else [path]:
    yield from _read_file(file)


def _read_file(file: Path) -> Iterator[Record]:
  match = _NAME.search(file.stem)
  setting = (match[1].lower(), match[2].capitalize()) if match else None
  if setting not in BUDGETS or setting is None:
    known = ", ".join("_".join(pair) for pair in BUDGETS)
    raise CorruptFileError(f"{file}: the name must say data set and threat, one of {known}")
  try:
    text = read_file(file, LARGEST_TEXT).decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
  except (UnicodeDecodeError, csv.Error) as error:
    raise CorruptFileError(f"{file}: not a CSV file ({error})") from None
  data, threat = setting
  names = Counter[str]()
  for row in rows:
    title, arch = row.get("Method"), row.get("Arch.")
    if not title:
      raise CorruptFileError(f"{file}: no column Method, or a row without one")
    name = f"{title}, {arch}" if arch else title
    names[name] += 1
    model = f"{name}.{threat}" if names[name] == 1 else f"{name} #{names[name]}.{threat}"
    more = {"venue": row.get("Venue"), "additional_data": row.get("Extra data")}
    about = {"name": title, **architecture(arch), **more}
    base: Record = {"schema": 0, "model": model, "data": data, "n": EXAMPLES[data], "source": SOURCE, "about": about}
    for column, (condition, attacked) in COLUMNS.items():
      text = (row.get(column) or "").strip()
      if not text:
        continue
      value = fraction(text.removesuffix("%"), f"{file}: {column} of {title[:40]}", 100.0)
      record: Record = {**base, "condition": condition}
      if not attacked:
        yield {**record, "accuracy": value}
      elif condition == THREAT_SHIFT:
        yield {**record, "attack": UNFORESEEN, "robust_accuracy": value}
      else:
        attack = {"attack": f"{NORMS[threat]}-mm5", "eps": BUDGETS[setting]}
        yield {**record, **attack, "robust_accuracy": value}


def write(results: Sequence[Result]) -> Iterator[tuple[str, str]]:
  """Yields path and text of one table per data set and threat, from these conditions' cells; best OOD mean first."""
  tables: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
  abouts: dict[str, tuple[str, str]] = {}
  for result in results:
    cell = result.cell
    column = next(
      (c for c, (where, hit) in COLUMNS.items() if (where, hit) == (cell.condition, cell.attack != "none")), None
    )
    for (data, threat), eps in BUDGETS.items():
      ours = cell.attack in ("none", UNFORESEEN) or (cell.attack == f"{NORMS[threat]}-mm5" and cell.eps == eps)
      named = next((norm for norm in OTHERS.values() if cell.model.endswith(f".{norm}")), threat)
      if column is not None and cell.data == data and ours and named == threat:
        row = tables.setdefault((data, threat), {}).setdefault(cell.model, {})
        row[column] = 100 * result.summary["robust_accuracy"]
        about = describe(result)
        title = about.get("name") or cell.model.removesuffix(f".{threat}")
        abouts[cell.model] = (str(title), str(about.get("arch") or ""))
  for (data, threat), models in tables.items():
    yield f"oodrobustbench_{data}_{threat}.csv", _table(models, abouts)


def _table(models: dict[str, dict[str, float]], abouts: dict[str, tuple[str, str]]) -> str:
  buffer = io.StringIO()
  writer = csv.writer(buffer, lineterminator="\n")
  mean = lambda row: (row.get("OOD-D robust acc.", -1.0) + row.get("OOD-T robust acc.", -1.0)) / 2
  writer.writerow(["Rank", "Method", "ID clean acc.", "ID robust acc.", "OOD robust acc.", *list(COLUMNS)[2:], "Arch."])
  whole = {model: row for model, row in models.items() if {"ID clean acc.", "ID robust acc."} <= set(row)}
  for rank, (model, row) in enumerate(sorted(whole.items(), key=lambda item: (-mean(item[1]), item[0])), 1):
    both = {"OOD-D robust acc.", "OOD-T robust acc."} <= set(row)
    texts = {column: f"{value:.2f}%" for column, value in row.items()}
    middle = [f"{mean(row):.2f}%" if both else "", *(texts.get(column, "") for column in list(COLUMNS)[2:])]
    title, arch = map(csv_text, abouts[model])
    writer.writerow([rank, title, texts["ID clean acc."], texts["ID robust acc."], *middle, arch])
  return buffer.getvalue()
