"""RobustBench's `model_info/DATASET/THREAT/MODEL.json` (arXiv:2010.09670; layout of the repository in March 2025).

Accuracies are text in percent. `autoattack_acc` is AutoAttack (standard) on 10,000 images (5,000 of ImageNet);
`external` is the accuracy under a stronger attack that somebody found; `corruptions_acc` the mean over CIFAR-C or
ImageNet-C. One name can stand for different weights in different threat models, so imported models are called
`MODEL.THREAT`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jaxrobust.results.cell import Result
from jaxrobust.results.exchange.common import (
  EXAMPLES,
  NORMS,
  OTHERS,
  Record,
  architecture,
  as_text,
  data_of,
  describe,
  fraction,
  plain_name,
  read_objects,
)

SOURCE = "RobustBench model_info"
_ABOUT = (
  "link", "name", "authors", "venue", "additional_data", "number_forward_passes", "reported", "footnote", "unreliable",
  "corruptions_acc_3d", "corruptions_mce", "corruptions_mce_3d",
)  # fmt: skip
UNRELIABLE = {
  "kind": "unreliable",
  "text": "the source marks AutoAttack's number as unreliable: a stronger attack may break this model",
}
CORRUPTED = "corruptions-mean"


def read(path: Path) -> Iterator[Record]:
  """Records of a file, or of a folder of them."""
  for file, info in read_objects(path):
    threat = file.parent.name if file.parent.name in (*NORMS, "corruptions") else "Linf"
    data = data_of(file, info)
    about = {key: info[key] for key in _ABOUT if info.get(key) is not None}
    base: Record = {
      "schema": 0,
      "model": f"{file.stem}.{threat}",
      "data": data,
      "n": EXAMPLES.get(data, 10_000),
      "source": SOURCE,
      "about": {**about, **architecture(info.get("architecture"))},
    }
    number = lambda key, file=file, info=info: fraction(info.get(key), f"{file}: {key}", 100.0)
    clean = number("clean_acc")
    yield {**base, "accuracy": clean}
    for key, attack in (("autoattack_acc", "autoattack"), ("external", "external")):
      if info.get(key) is not None and threat in NORMS and info.get("eps"):
        attacked = {"attack": f"{NORMS[threat]}-{attack}", "eps": str(info["eps"]), "robust_accuracy": number(key)}
        marked = {"findings": [UNRELIABLE]} if info.get("unreliable") is True else {}
        yield {**base, **attacked, "accuracy": clean, **marked}
    if info.get("corruptions_acc") is not None:
      yield {**base, "condition": CORRUPTED, "accuracy": number("corruptions_acc")}


def write(results: Sequence[Result]) -> Iterator[tuple[str, str]]:
  """Yields path and text of one file per model, data set and norm of AutoAttack; and per corrupted data set."""
  cells = {(r.cell.model, r.cell.data, r.cell.condition, r.cell.attack): r for r in results}
  for (model, data, condition, attack), result in cells.items():
    norm, _, name = attack.partition("-")
    clean = cells.get((model, data, "clean", "none"))
    if clean is None or not plain_name(data):
      continue
    if condition == "clean" and name == "autoattack" and norm in OTHERS:
      stronger = cells.get((model, data, "clean", f"{norm}-external"))
      more = {} if stronger is None else {"external": _percent(stronger)}
      info = {
        **_info(model, clean, result.cell.eps),
        "autoattack_acc": _percent(result),
        "unreliable": describe(clean).get("unreliable") is True,
        **more,
      }
      yield _path(data, OTHERS[norm], model), as_text(info)
    elif condition == CORRUPTED and attack == "none":
      yield (
        _path(data, "corruptions", model),
        as_text({**_info(model, clean, None), "corruptions_acc": _percent(result), **_more(clean)}),
      )


def _path(data: str, threat: str, model: str) -> str:
  return f"{data}/{threat}/{model.removesuffix(f'.{threat}')}.json"


def _percent(result: Result) -> str:
  return f"{100 * result.summary['robust_accuracy']:.2f}"


def _more(clean: Result) -> dict[str, Any]:
  """Returns the other numbers of corruption boards, as they were read."""
  return {name: value for name, value in describe(clean).items() if name.startswith("corruptions_")}


def _info(model: str, clean: Result, eps: str | None) -> dict[str, Any]:
  about = describe(clean)
  return {
    "link": about.get("link"),
    "name": about.get("name", model),
    "authors": about.get("authors"),
    "additional_data": about.get("additional_data"),
    "number_forward_passes": about.get("number_forward_passes", 1),
    "dataset": clean.cell.data,
    "venue": about.get("venue"),
    "architecture": about.get("arch"),
    "eps": eps,
    "clean_acc": _percent(clean),
    "reported": about.get("reported"),
    "footnote": about.get("footnote"),
  }
