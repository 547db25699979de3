"""What names in a cell say: the norm at the head of an attack's id, a transfer's source, a result's threat, and
whether the attack knew of the defense."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from jaxrobust.core.budget import NORMS

_CERTIFIED = "-certified-"
_TRANSFER, _OBLIVIOUS = "transfer:", "oblivious:"
# Conditions under which no attack is made, whatever the id says.
SEQUENCE = "sequence-"


@functools.lru_cache(4096)
def attack_norm(attack: str) -> str | None:
  """Returns the norm an attack's id begins with, also behind a transfer's source.

  >>> attack_norm("linf-pgd-20"), attack_norm("transfer:resnet:l2-pgd-20"), attack_norm("none")
  ('linf', 'l2', None)
  """
  norm = bare_attack(attack).split("-")[0]
  return norm if norm in NORMS else None


@functools.lru_cache(4096)
def transfer_source(attack: str) -> str | None:
  """Returns the model whose adversarial images these are, where they were made on another one.

  >>> transfer_source("transfer:my:net:linf-pgd-20"), transfer_source("linf-pgd-20")
  ('my:net', None)
  """
  if not attack.startswith(_TRANSFER):
    return None
  return attack.removeprefix(_TRANSFER).rpartition(":")[0] or None


def is_targeted(attack: str) -> bool:
  """Tells whether each image of a cell had a wrong class as its goal.

  >>> is_targeted("transfer:my:net:linf-bim-10,step_size=0.15,targeted"), is_targeted("linf-pgd-20")
  (True, False)
  """
  return attack.endswith(",targeted")


def transfer_id(source: str, attack: str) -> str:
  """Returns the id of an attack whose images were made on another model."""
  return f"{_TRANSFER}{source}:{attack}"


@functools.lru_cache(4096)
def oblivious_by(attack: str) -> str | None:
  """Returns what an attack on a defended model ignores the defense by: `gradient` or `images`; None if it does not.

  >>> oblivious_by("oblivious:gradient:linf-pgd-20"), oblivious_by("linf-pgd-20")
  ('gradient', None)
  """
  return attack.removeprefix(_OBLIVIOUS).partition(":")[0] if attack.startswith(_OBLIVIOUS) else None


def is_certificate(attack: str) -> bool:
  """Tells whether a cell is about what was proved, a lower bound, and no attack.

  >>> is_certificate(certificate_id("linf", "crown")), is_certificate("linf-pgd-20")
  (True, False)
  """
  return _CERTIFIED in attack


def certificate_id(norm: str, method: str) -> str:
  """Returns what stands in place of an attack's id in cells of certificates."""
  return f"{norm}{_CERTIFIED}{method}"


def oblivious_id(attack: str, how: str) -> str:
  """Returns the id of an attack that ignores the defense."""
  return f"{_OBLIVIOUS}{how}:{attack}"


def bare_attack(attack: str) -> str:
  """Returns an attack's id without where its images are from and what it ignores.

  >>> bare_attack("transfer:my:net:linf-pgd-20"), bare_attack("oblivious:images:l2-fgsm"), bare_attack("none")
  ('linf-pgd-20', 'l2-fgsm', 'none')
  """
  return attack.rpartition(":")[2] if attack.startswith((_TRANSFER, _OBLIVIOUS)) else attack


def threat_name(config: Mapping[str, Any], attack: str) -> str | None:
  """Returns the name of a result's threat: what its configuration says, or else the norm its attack's id begins with.

  >>> threat_name({"threat": {"name": "stadv"}}, "stadv-flow-10"), threat_name({}, "l2-pgd-20")
  ('stadv', 'l2')
  >>> threat_name({"threat": None}, "none") is None
  True
  """
  if "threat" not in config:
    return attack_norm(attack)
  return _text(config["threat"], "name")


def threat_unit(config: Mapping[str, Any]) -> str | None:
  """Returns what the distances of a result's threat are measured in, where it says so."""
  return _text(config.get("threat"), "unit")


def without_threat(attack: str, threat: str | None) -> str:
  """Returns an attack's id without the threat at its head.

  >>> without_threat("linf-pgd-20", "linf"), without_threat("lpips-alexnet-lpa-40", "lpips-alexnet")
  ('pgd-20', 'lpa-40')
  """
  return attack if threat is None else attack.removeprefix(f"{threat}-")


def _text(about: Any, key: str) -> str | None:
  value = about.get(key) if isinstance(about, Mapping) else None
  return value if isinstance(value, str) and value else None
