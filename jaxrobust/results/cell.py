"""The unit of truth: what was asked (`Cell`) and what came out (`Result`).

A cell is one model on one data set under one condition, attacked in one way with one
budget. Its result is one self-describing file; every number in a table, curve or page
is a query over such files.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.core.budget import Budget
from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.core.reading import loads
from jaxrobust.results.migrations import migrate
from jaxrobust.results.packing import pack, unpack
from jaxrobust.results.plain import dumps, plain

# 2: the configuration says the threat; see `migrations` for what earlier files become.
SCHEMA = 2
# The array that makes a result a shard: which examples of the cell it holds.
INDEX = "index"

_EPS = re.compile(r"[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?(/[0-9]+(\.[0-9]+)?)?", re.IGNORECASE)
_LONGEST_EPS = 32
_LONGEST_NAME = 100
_UNSAFE = re.compile(rb"[^A-Za-z0-9_.+-]|^\.")
_ENTRIES = {"schema", "cell", "config", "provenance", "summary", "examples", "findings"}


def safe_name(name: str) -> str:
  """Returns a file name for any text, different for different texts.

  Unsafe bytes are percent-encoded (as is a leading dot: no hidden files, no way up). A name too
  long for a file system ends in its hash instead; `%-` marks it, which the encoding never makes.

  Example:
    >>> safe_name("mm+"), safe_name("../a b")
    ('mm+', '%2E.%2Fa%20b')
  """
  raw = name.encode("utf-8", "surrogatepass")
  text = _UNSAFE.sub(lambda match: b"%%%02X" % match.group()[0], raw).decode("ascii")
  if len(text) <= _LONGEST_NAME:
    return text
  return f"{text[:60]}%-{hashlib.sha256(raw).hexdigest()[:32]}"


def _is_budget(eps: object) -> bool:
  # No underscore can pass, so that writing / as _ in file names stays unambiguous.
  if not isinstance(eps, str) or len(eps) > _LONGEST_EPS or _EPS.fullmatch(eps) is None:
    return False
  try:
    Budget.parse(eps)
  except InputError:
    return False
  return True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
  """One question: model, data, condition, attack, budget, number of examples, seed.

  Attributes:
    condition: what was done to the images before the attack; "clean" for nothing.
    attack: the attack's id, such as "linf-pgd-20"; "none" for plain accuracy.
    eps: the budget as exact text ("8/255", "0.5"), or None where there is none. Text,
      because 8/255 has no exact float and the same budget must always be the same cell.

  Example:
    >>> cell = Cell(model="resnet20", data="digits32", attack="linf-pgd-20", eps="8/255", n=500)
    >>> cell.id
    'linf-pgd-20@8/255'
    >>> cell.path("out").as_posix()
    'out/resnet20/digits32/clean/linf-pgd-20@8_255.n500.seed0.json'
  """

  model: str
  data: str
  condition: str = "clean"
  attack: str = "none"
  eps: str | None = None
  n: int
  seed: int = 0

  def __post_init__(self) -> None:
    for field in ("model", "data", "condition", "attack"):
      if not isinstance(getattr(self, field), str) or not getattr(self, field):
        raise InputError(f"a cell's {field} must be a name, not {getattr(self, field)!r}")
    for field, least in (("n", 1), ("seed", 0)):
      value = getattr(self, field)
      if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(f"a cell's {field} must be an integer of at least {least}, not {value!r}")
    if self.eps is not None and not _is_budget(self.eps):
      raise InputError(f"a cell's eps must be text such as '8/255' or '0.5', not {self.eps!r}")

  @property
  def id(self) -> str:
    """Returns the attack and its budget, as tables show them."""
    return self.attack if self.eps is None else f"{self.attack}@{self.eps}"

  def path(self, root: str | Path) -> Path:
    """Returns where the result of this cell lives under a results folder."""
    budget = "" if self.eps is None else "@" + self.eps.replace("/", "_")
    folder = Path(root, *(safe_name(name) for name in (self.model, self.data, self.condition)))
    return folder / f"{safe_name(self.attack)}{budget}.n{self.n}.seed{self.seed}.json"

  def __str__(self) -> str:
    return f"{self.model} {self.data} {self.condition} {self.id} n={self.n} seed={self.seed}"


_FIELDS = {field.name for field in dataclasses.fields(Cell)}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Result:
  """The answer to a cell. Compare two of them by `to_text`, which is canonical.

  Attributes:
    config: everything that decides the verdict (hyper-parameters, fingerprints, precision); finite
      plain JSON values. A stored result is reused only where it equals the configuration asked for.
      `threat` is what the attack's threat says of itself (`{"name": "linf"}`), None without an attack.
    provenance: versions, platform and the like: recorded, never compared.
    summary: counts and fractions; a number that is not finite is stored as null.
    examples: name -> bool, int32 or float32 array with one entry per example (see below). An array called
      "index" makes this a shard that holds only those examples of the cell.
    findings: structured warnings.

  Arrays of examples that jaxrobust writes, each where it means something:
    correct, robust: right before the attack, and still right after it.
    nan, disagree, softmax: outputs that were not numbers; successes that the verification did not confirm;
      probabilities in place of logits.
    label, clean_prediction, prediction, confidence: the classes, and the probability of the last one.
    stage: of the schedule that broke it, -1 for none, -2 where it was certified and not attacked.
    broken_at: the step of that stage, or -1 (attacks within a budget).
    certified_radius: a distance within which it is proved that nothing breaks it; 0 where nothing was proved.
    queries: forward passes that the attacks really made on it, exact. flat: how often the gradient was zero.
    margin: of the goal at the judged point that came nearest to it, positive where it was met (budget attacks).
    robust_cheap, audited, stratum: of audits, see `jaxrobust.evaluation.audit_job`.
    distance: of the closest adversarial image in the threat's own measure (minimal attacks); infinity without one,
      NaN where the threat defines none.
    reached_step@EPS, reached_query@EPS: the first step and query at which a minimal attack was within a budget, or -1.
    robust_after@K: still right after K steps of the attack on the source (transfer).
    source_correct: right before the attack on the network that the image was made on (transfer).
    reached, reached_after@K: taken for the target, right before or not (targeted transfer).
    flips: share of frames whose prediction changed (perturbation sequences).
    jacobian-K, gradient: measures of the image, where a suite asks for them (`jaxrobust.evaluation.measures`).
  """

  cell: Cell
  config: Mapping[str, Any]
  summary: Mapping[str, Any]
  examples: Mapping[str, np.ndarray]
  provenance: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  findings: Sequence[Mapping[str, Any]] = ()
  schema: int = SCHEMA

  def __post_init__(self) -> None:
    index = self.examples.get(INDEX)
    n = self.cell.n if index is None else len(index)
    if n > self.cell.n:
      raise InputError(f"a shard of {n} examples is larger than its cell of {self.cell.n}")
    for name, array in self.examples.items():
      if array.shape != (n,):
        raise InputError(f"examples {name!r} have the shape {array.shape}; expected ({n},)")


def to_text(result: Result) -> str:
  """Returns the one JSON text of a result: equal results give equal bytes."""
  return dumps(
    {
      "schema": result.schema,
      "cell": dataclasses.asdict(result.cell),
      "config": plain(result.config, "config", null_for_nan=False),
      "provenance": plain(result.provenance, "provenance", null_for_nan=True),
      "summary": plain(result.summary, "summary", null_for_nan=True),
      "examples": {name: pack(array) for name, array in result.examples.items()},
      "findings": plain(list(result.findings), "findings", null_for_nan=True),
    }
  )


def from_text(text: str | bytes) -> Result:
  """Reads a JSON text of this or an earlier schema; CorruptFileError, with the reason, for anything else."""
  document = read_document(text)
  examples = {name: unpack(value) for name, value in document["examples"].items()}
  try:
    return Result(**{**document, "examples": examples})
  except InputError as error:
    raise CorruptFileError(str(error)) from None


def read_document(text: str | bytes) -> dict[str, Any]:
  """Returns the checked entries of a result in the present schema, arrays still packed and `cell` a `Cell`."""
  try:
    document = loads(text)
  except ValueError as error:
    raise CorruptFileError(f"truncated or not JSON ({error})") from None
  if not isinstance(document, dict):
    raise CorruptFileError("not a result (no JSON object)")
  document = migrate(document, SCHEMA)
  if document.keys() != _ENTRIES:
    wrong = ", ".join(sorted(_ENTRIES ^ set(document)))
    raise CorruptFileError(f"not a result (entries missing or unknown: {wrong})")
  for name in ("cell", "config", "provenance", "summary", "examples"):
    if not isinstance(document[name], dict):
      raise CorruptFileError(f"{name} is not an object")
  findings = document["findings"]
  if not isinstance(findings, list) or not all(isinstance(item, dict) for item in findings):
    raise CorruptFileError("findings is not a list of objects")
  if document["cell"].keys() != _FIELDS:
    raise CorruptFileError("the cell has entries missing or unknown")
  try:
    return {**document, "cell": Cell(**document["cell"])}
  except InputError as error:
    raise CorruptFileError(str(error)) from None
