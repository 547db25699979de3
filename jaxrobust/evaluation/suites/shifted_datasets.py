"""Data sets that belong to another one: its natural shifts, stored corruptions, outliers, encoded files.

`digits32` has a stand-in for every kind of shift, so that each suite runs without a download. A data set that is not
listed (`npz:…`, one's own) has no shifted ones; its corruptions are made on the fly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxrobust.core.condition import parse_corruption
from jaxrobust.evaluation.metrics.corruptions import ALEXNET_ERRORS
from jaxrobust.evaluation.suites.entry import SuiteEntry
from jaxrobust.evaluation.suites.suite import Part, Setting
from jaxrobust.noises.registry import SEVERITIES

# OODRobustBench's natural shifts (arXiv:2310.12793, appendix B), judged among all 1,000 classes.
NATURAL = {
  "cifar10": ("cifar10.1-v6", "cifar10.2", "cinic10", "cifar10-r"),
  "imagenet": ("imagenet-v2", "imagenet-a:1000", "imagenet-r:1000", "objectnet:1000"),
  "digits32": ("digits32-v2", "digits32-r", "digits32-sketch", "digits32-a"),
}
# The other nine of ARES-Bench's ten data sets (arXiv:2302.14301, table 1); corruptions are the tenth.
ARES_BENCH = {
  "imagenet": (
    "imagenet-v2",
    "imagenet-real",
    "objectnet",
    "imagenet-a",
    "imagenet-r",
    "imagenet-v",
    "stylized-imagenet",
    "imagenet-sketch",
  ),
  "digits32": ("digits32-v2", "digits32-a", "digits32-r", "digits32-sketch"),
  "cifar10": ("cifar10.1-v6", "cifar10.2", "cinic10", "cifar10-r"),
}
HARD = {"imagenet": "imagenet-a", "digits32": "digits32-a"}
# Outliers, and the inliers that they are told apart from.
OUTLIERS = {"imagenet": ("imagenet-o", "imagenet-o-inliers"), "digits32": ("digits32-o", "digits32")}
ENCODED = {"imagenet": "imagenet", "digits32": "digits32-s"}
STORED_SEQUENCES = {"cifar10": "cifar10-p", "imagenet": "imagenet-p"}
STORED = {"cifar10": "cifar10-c", "cifar100": "cifar100-c", "imagenet": "imagenet-c"}

# ImageNet-C's fifteen, and one of each kind (noise, blur, weather, digital) for the small form.
CORRUPTIONS = tuple(ALEXNET_ERRORS)
FEW = ("gaussian_noise", "defocus_blur", "fog", "jpeg_compression")
FEW_SEVERITIES = (1, 5)


def corruptions(setting: Setting) -> tuple[str, ...]:
  """Returns the corruptions of a setting."""
  return FEW if setting.small else CORRUPTIONS


def severities(setting: Setting) -> Sequence[int]:
  """Returns the severities of a setting."""
  return FEW_SEVERITIES if setting.small else range(1, SEVERITIES + 1)


def sequences(setting: Setting, names: Sequence[str], entries: Sequence[SuiteEntry]) -> list[Part]:
  """Puts the entries on perturbation sequences: official files where there are some, or made on the fly."""
  stored = None if setting.generated else STORED_SEQUENCES.get(setting.base)
  return [
    Part(f"{stored}:{name}", "none", tuple(entries), "sequence")
    if stored
    else Part(setting.data, f"sequence-{name}", tuple(entries), "sequence")
    for name in names
  ]


def sequence_of(part: Part) -> str:
  """Returns the perturbation of a part of that group.

  >>> sequence_of(Part("imagenet-p:tilt", "none", ())), sequence_of(Part("x", "sequence-tilt-t32", ()))
  ('tilt', 'tilt')
  """
  return part.data.rpartition(":")[2] if part.condition == "none" else part.condition.split("-")[1]


def corrupted(setting: Setting, entries: Sequence[SuiteEntry], n: int | None = None) -> list[Part]:
  """Puts the entries under every corruption and severity: official files where there are some, or made on the fly."""
  stored = None if setting.generated else STORED.get(setting.base)
  return [
    Part(f"{stored}:{name}-{level}", "none", tuple(entries), "corruption", n)
    if stored
    else Part(setting.data, f"{name}-{level}", tuple(entries), "corruption", n)
    for name in corruptions(setting)
    for level in severities(setting)
  ]


def corruption_of(part: Part) -> tuple[str, int]:
  """Returns (corruption, severity) of a part of that group.

  >>> corruption_of(Part("cifar10-c:fog-3", "none", (), "corruption")), corruption_of(Part("x", "fog-3", ()))
  (('fog', 3), ('fog', 3))
  """
  text = part.data.rpartition(":")[2] if part.condition == "none" else part.condition
  found = parse_corruption(text)
  assert found is not None, text
  return found


def naturals(
  setting: Setting, names: Mapping[str, Sequence[str]], entries: Sequence[SuiteEntry], n: int | None = None
) -> list[Part]:
  """Puts the entries on every shifted data set that there is, at most `n` examples of each."""
  return [Part(name, "none", tuple(entries), "natural", n) for name in names.get(setting.base, ())]
