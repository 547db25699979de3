"""What self-supervised pre-training needs of the loop: a network around the classifier, and the classifier taken out.

An objective with `wrap` trains a module whose attribute `backbone` is the classifier's network; everything else in it
(projections, decoders) is left behind when the run is saved. What such an objective carries along without training it
(a momentum encoder, a queue) lives in the module's `batch_stats`, so that checkpoints, shardings and exact resumption
need to know nothing of it. The saved folder is a classifier like any other: `--init=FOLDER` fine-tunes it, and
a head of another width is made anew.
"""

from __future__ import annotations

from typing import Any

from flax import linen as nn

from jaxrobust.core.errors import InputError
from jaxrobust.training.config import TrainConfig


def wrapped(module: nn.Module, objective: Any, config: TrainConfig) -> nn.Module:
  """The network that is trained: the classifier itself, or what the objective puts around it."""
  if not hasattr(objective, "wrap"):
    return module
  if config.holdout:
    raise InputError("pre-training has no accuracy to choose an epoch by: set holdout to 0")
  if config.init:
    raise InputError("pre-training starts from fresh weights: init is for fine-tuning")
  return objective.wrap(module)


def backbone_of(module: nn.Module) -> nn.Module:
  """The classifier's network inside a trained one."""
  return getattr(module, "backbone", module)


def backbone_variables(module: nn.Module, variables: dict[str, Any]) -> dict[str, Any]:
  """The classifier's variables among those of a trained network."""
  if not hasattr(module, "backbone"):
    return variables
  return {name: collection["backbone"] for name, collection in variables.items() if "backbone" in collection}
