"""jaxrobust: how robust is this image classifier, against everything?

The names below are stable; everything else may move. They are imported on first use, so that reading
results needs no JAX and `import jaxrobust` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
  __version__: str
  from jaxrobust import testing as testing
  from jaxrobust.attacks.making import make_attack as make_attack
  from jaxrobust.attacks.minimum_budget import MinimumBudget as MinimumBudget
  from jaxrobust.attacks.registry import list_attacks as list_attacks
  from jaxrobust.attacks.schedule import Cascade as Cascade
  from jaxrobust.attacks.schedule import Stage as Stage
  from jaxrobust.core.classifier import Classifier as Classifier
  from jaxrobust.core.errors import JaxrobustError as JaxrobustError
  from jaxrobust.core.gradients import bpda as bpda
  from jaxrobust.core.gradients import loss_and_grad as loss_and_grad
  from jaxrobust.core.lpips import Lpips as Lpips
  from jaxrobust.core.threat import Norm as Norm
  from jaxrobust.core.threat import Threat as Threat
  from jaxrobust.core.threat import by_norm as by_norm
  from jaxrobust.core.types import Cost as Cost
  from jaxrobust.core.types import Probe as Probe
  from jaxrobust.core.types import Problem as Problem
  from jaxrobust.data.registry import list_datasets as list_datasets
  from jaxrobust.data.registry import load_data as load_data
  from jaxrobust.defenses.registry import list_defenses as list_defenses
  from jaxrobust.defenses.registry import make_defense as make_defense
  from jaxrobust.defenses.stored import load_classifier as load_classifier
  from jaxrobust.engine.api import AttackResult as AttackResult
  from jaxrobust.engine.api import attack_images as attack_images
  from jaxrobust.engine.options import EngineOptions as EngineOptions
  from jaxrobust.evaluation.evaluate import evaluate as evaluate
  from jaxrobust.models.perceptual import make_threat as make_threat
  from jaxrobust.models.registry import list_models as list_models
  from jaxrobust.models.registry import make_model as make_model
  from jaxrobust.models.zoo import save_classifier as save_classifier

_HOMES = {
  "AttackResult": "engine.api",
  "Cascade": "attacks.schedule",
  "Classifier": "core.classifier",
  "Cost": "core.types",
  "EngineOptions": "engine.options",
  "JaxrobustError": "core.errors",
  "Lpips": "core.lpips",
  "MinimumBudget": "attacks.minimum_budget",
  "Norm": "core.threat",
  "Probe": "core.types",
  "Problem": "core.types",
  "Stage": "attacks.schedule",
  "Threat": "core.threat",
  "attack_images": "engine.api",
  "bpda": "core.gradients",
  "by_norm": "core.threat",
  "evaluate": "evaluation.evaluate",
  "list_attacks": "attacks.registry",
  "list_defenses": "defenses.registry",
  "list_datasets": "data.registry",
  "list_models": "models.registry",
  "load_classifier": "defenses.stored",
  "load_data": "data.registry",
  "loss_and_grad": "core.gradients",
  "make_attack": "attacks.making",
  "make_defense": "defenses.registry",
  "make_model": "models.registry",
  "make_threat": "models.perceptual",
  "save_classifier": "models.zoo",
}

__all__ = ["__version__", "testing", *sorted(_HOMES)]


if not TYPE_CHECKING:  # Checkers would take any name for one that is there.

  def __getattr__(name: str) -> Any:
    if name == "__version__":
      from importlib.metadata import version

      return version("jaxrobust")
    if name == "testing":
      return importlib.import_module("jaxrobust.testing")
    if name not in _HOMES:
      raise AttributeError(f"module 'jaxrobust' has no attribute {name!r}")
    return getattr(importlib.import_module(f"jaxrobust.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
  return __all__
