"""OODRobustBench's `model_info/DATASET/THREAT/MODEL.json` (arXiv:2310.12793; its `eval.py` of July 2024).

  {"dataset": "cifar10", "eps": 0.031373, "clean_acc": 0.85, "adv_acc": {"Linf-mm5-0.031373": 0.51},
   "metrics": {"corruptions": {"fog": {"3": {"clean": 0.8, "Linf-mm5-0.031373": 0.4}}}, "cifar10.1": {…}}}

An attack's key has six decimals of its budget without trailing zeros, and no steps, restarts or number of examples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxrobust.core.condition import parse_corruption
from jaxrobust.core.errors import CorruptFileError
from jaxrobust.results.cell import Result
from jaxrobust.results.exchange.common import (
  EXAMPLES,
  NORMS,
  OTHERS,
  Record,
  architecture,
  as_object,
  as_text,
  data_of,
  exact_budget,
  fraction,
  plain_name,
  read_objects,
)
from jaxrobust.results.ids import attack_norm, threat_name, without_threat
from jaxrobust.results.rows import budget_value

SOURCE = "OODRobustBench model_info"
# Their names of shifted data sets, and ours where they differ.
SHIFTS = {
  "cifar10.1": "cifar10.1-v6",
  "cinic": "cinic10",
  "v2": "imagenet-v2",
  "A": "imagenet-a",
  "R": "imagenet-r",
  "S": "imagenet-sketch",
  "V": "imagenet-v",
  "ON": "objectnet",
}
# How many examples shifted data sets have; of larger ones as many are drawn as the data set itself has.
SIZES = {"cifar10.1-v6": 2_000, "cifar10.2": 2_000, "cifar10-r": 6_837}
# What models of the benchmark were trained for (section 3 of the paper): norm and budget by data set.
TRAINED = {("cifar10", "linf"): "8/255", ("cifar10", "l2"): "0.5", ("imagenet", "linf"): "4/255"}
# By the same: the unforeseen (norm, budget) of MM5, a larger one of the same norm and one of the other norm.
OTHER_BUDGETS = {
  ("cifar10", "linf"): (("linf", "12/255"), ("l2", "0.5")),
  ("cifar10", "l2"): (("l2", "1"), ("linf", "8/255")),
  ("imagenet", "linf"): (("linf", "8/255"), ("l2", "1")),
}
ATTACKS = {"aa": "autoattack"}
# Their attacks without a norm: the threat, and all steps on CIFAR-10 and ImageNet, which ids of ours have in them.
# LPIPS is that of an AlexNet for CIFAR-10 that cannot be had any more, or of ImageNet's; its fingerprint is not known.
UNFORESEEN = {
  "ppgd": ("lpips", 40, 40),
  "lpa": ("lpips", 200, 200),
  "stadv": ("flow", 100, 200),
  "recolor": ("color", 100, 200),
}
NETWORKS = {"cifar10": "lpips-alexnet-cifar", "imagenet": "lpips-alexnet"}
# Natural shifts of a data set have names of their own; those of other data sets begin with its name.
BASES = {"cinic10": "cifar10", "objectnet": "imagenet"}


def read(path: Path) -> Iterator[Record]:
  """Records of a file, or of a folder of them."""
  for file, info in read_objects(path):
    threat = file.parent.name if file.parent.name in (*NORMS, "nonLp") else "Linf"
    data = data_of(file, info)
    base: Record = {
      "schema": 0,
      "model": f"{file.stem}.{threat}",
      "source": SOURCE,
      "about": {**architecture(info.get("architecture")), "name": info.get("name")},
    }
    found: list[tuple[str, str, Mapping[str, Any]]] = [
      (data, "clean", {"clean": info.get("clean_acc"), **as_object(info.get("adv_acc") or {}, file)})
    ]
    for shift, values in as_object(info.get("metrics") or {}, file).items():
      if shift == "corruptions":
        table = "t32" if data.startswith("cifar") else "t224"
        found.extend(
          (data, f"{name}-{severity}-{table}", measured)
          for name, severities in as_object(values, file).items()
          for severity, measured in as_object(severities, file).items()
        )
      else:
        found.append((SHIFTS.get(shift, shift), "clean", as_object(values, file)))
    for name, condition, measured in found:
      yield from _measured(
        file, {**base, "data": name, "condition": condition, "n": SIZES.get(name, EXAMPLES.get(data, 10_000))}, measured
      )


def _measured(file: Path, base: Record, values: Mapping[str, Any]) -> Iterator[Record]:
  clean = as_object(values, file).get("clean")
  accuracy = None if clean is None else fraction(clean, f"{file}: clean")
  for key, value in values.items():
    if value is None or key == "errs":
      continue
    if key == "clean":
      yield {**base, "accuracy": accuracy}
    else:
      attack, eps, threat = parse_key(key, base["data"])
      robust = fraction(value, f"{file}: {key}")
      about = {} if threat is None else {"threat": threat}
      yield {**base, "attack": attack, "eps": eps, "accuracy": accuracy, "robust_accuracy": robust, **about}


def parse_key(key: str, data: str = "cifar10") -> tuple[str, str, str | None]:
  """Returns our attack id, the budget, and the threat where that is no norm, of a key.

  >>> parse_key("Linf-mm5-0.031373"), parse_key("L2-aa-1.")
  (('linf-mm5', '8/255', None), ('l2-autoattack', '1.0', None))
  >>> parse_key("stadv-0.05", "imagenet"), parse_key("lpa-0.5")[0]
  (('flow-stadv-200', '0.05', 'flow'), 'lpips-alexnet-cifar-lpa-200')
  """
  name, _, eps = key.rpartition("-")
  norm, _, attack = name.rpartition("-")
  try:
    budget = exact_budget(float(eps), 6)
  except ValueError:
    raise CorruptFileError(f"{key!r} is no attack's key") from None
  attack = ATTACKS.get(attack, attack)
  if not norm and attack in UNFORESEEN:
    kind, small, large = UNFORESEEN[attack]
    threat = NETWORKS.get(data, NETWORKS["cifar10"]) if kind == "lpips" else kind
    return f"{threat}-{attack}-{large if data == 'imagenet' else small}", budget, threat
  return (f"{NORMS.get(norm, norm)}-{attack}" if norm else attack), budget, None


def make_key(attack: str, eps: str, threat: str | None = None) -> str | None:
  """Returns the key of an attack; None for one that has none. Only norms are named: other threats have an attack each.

  >>> make_key("linf-mm5", "8/255"), make_key("l2-autoattack", "1"), make_key("flow-stadv-100", "0.05", "flow")
  ('Linf-mm5-0.031373', 'L2-aa-1.', 'stadv-0.05')
  """
  norm, budget = attack_norm(attack), budget_value(eps)
  if budget is None or ":" in attack:
    return None
  name = without_threat(attack, norm or threat)
  name = next((theirs for theirs, ours in ATTACKS.items() if ours == name), name)
  if not norm:  # The benchmark's own numbers of steps go without saying; others do not.
    name = next(
      (theirs for theirs, (_, *steps) in UNFORESEEN.items() if name in {f"{theirs}-{n}" for n in steps}), name
    )
  return f"{OTHERS[norm]}-{name}-{budget:.6f}".rstrip("0") if norm else f"{name}-{budget:.6f}".rstrip("0")


def write(results: Sequence[Result]) -> Iterator[tuple[str, str]]:
  """Yields path and text of one file per model and data set it was trained on."""
  ours = {our: their for their, our in SHIFTS.items()}
  documents: dict[tuple[str, str], dict[str, Any]] = {}
  sets = {result.cell.data for result in results}
  for result in results:
    cell = result.cell
    if not plain_name(cell.data):
      continue
    base = base_of(cell.data, sets)
    document = documents.setdefault((base, cell.model), {"dataset": base, "adv_acc": {}, "metrics": {}})
    threat = threat_name(result.config, cell.attack)
    key = "clean" if cell.attack == "none" else make_key(cell.attack, cell.eps or "", threat)
    corruption = parse_corruption(cell.condition)
    if key is None or (cell.condition != "clean" and corruption is None):
      continue
    value = result.summary["robust_accuracy"]
    if corruption is not None:
      names = document["metrics"].setdefault("corruptions", {}).setdefault(corruption[0], {})
      names.setdefault(str(corruption[1]), {})[key] = value
    elif cell.data != base:
      document["metrics"].setdefault(ours.get(cell.data, cell.data), {})[key] = value
    elif key == "clean":
      document["clean_acc"] = value
    else:
      document["adv_acc"][key] = value
  for (base, model), document in documents.items():
    norms = {key.split("-")[0] for key in document["adv_acc"]} & set(NORMS)
    suffix = next((norm for norm in NORMS if model.endswith(f".{norm}")), None)
    trained = suffix or ("L2" if norms == {"L2"} else "Linf")
    eps = _trained_budget(document["adv_acc"], base, trained)
    document |= {} if eps is None else {"eps": eps}
    yield f"{base}/{trained}/{model.removesuffix(f'.{trained}')}.json", as_text(document)


def _trained_budget(accuracies: Mapping[str, float], base: str, threat: str) -> float | None:
  """Returns the budget a model was trained for: the paper's where it was attacked so, else the least of its norm.

  >>> _trained_budget({"L2-mm5-0.5": 0.6, "Linf-mm5-0.047059": 0.2, "Linf-mm5-0.031373": 0.4}, "cifar10", "Linf")
  0.03137254901960784
  """
  keys = [parse_key(key) for key in accuracies]
  budgets = {eps: budget_value(eps) or 0.0 for attack, eps, _ in keys if attack_norm(attack) == NORMS[threat]}
  paper = TRAINED.get((base, NORMS[threat]))
  return budgets[paper] if paper in budgets else min(budgets.values(), default=None)


def base_of(data: str, sets: set[str]) -> str:
  """Returns the data set that another one is a shift of; itself if it is none.

  >>> base_of("cifar10.1-v6", {"cifar10", "cifar10.1-v6"}), base_of("cinic10", set()), base_of("digits32", set())
  ('cifar10', 'cifar10', 'digits32')
  """
  if data in BASES:
    return BASES[data]
  bases = [other for other in sets if data != other and data.startswith((f"{other}-", f"{other}."))]
  return min(bases, key=len, default=data)
