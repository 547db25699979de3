"""Self-supervised pre-training for the loop: a network around the classifier, and the classifier taken out.

An objective with `wrap` trains a module whose attribute `backbone` is the classifier's network; everything else in it
(projections, decoders) is left behind when the run is saved. What such an objective carries along without training it
(a momentum encoder, a queue) lives in the module's `batch_stats`, so that checkpoints, shardings and exact resumption
need to know nothing of it. The saved folder is a classifier like any other: `--init=FOLDER` fine-tunes it, and
a head of another width is made anew.
"""

from __future__ import annotations

from typing import Any

import flax
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.models.layers.patches import sine_positions
from jaxrobust.training.config import TrainConfig
from jaxrobust.training.technique import Objective


def wrapped(module: nn.Module, objective: Objective, config: TrainConfig) -> nn.Module:
  """Returns the network that is trained: the classifier itself, or what the objective puts around it."""
  around = objective.wrap(module)
  if around is module:
    return module
  if config.holdout:
    raise InputError("pre-training has no accuracy to choose an epoch by: set holdout to 0")
  if config.init:
    raise InputError("pre-training starts from fresh weights: init is for fine-tuning")
  return around


def backbone_of(module: nn.Module) -> nn.Module:
  """Returns the classifier's network inside a trained one."""
  return getattr(module, "backbone", module)


def backbone_variables(module: nn.Module, variables: dict[str, Any]) -> dict[str, Any]:
  """Returns the classifier's variables among those of a trained network."""
  if backbone_of(module) is module:
    return variables
  return {name: collection["backbone"] for name, collection in variables.items() if "backbone" in collection}


def transformer_start(params: Any, key: Array) -> Any:
  """Starts as MAE and MoCo v3 do: evenly distributed kernels, positions as sines and cosines.

  Glorot and Bengio 2010; the usual normal ones of deviation 0.02 are too small for small networks.
  """
  flat = flax.traverse_util.flatten_dict(params)
  for number, (name, leaf) in enumerate(sorted(flat.items())):
    if name[-1] == "kernel" and leaf.ndim > 1:
      fans = int(np.prod(leaf.shape[:-1])) + leaf.shape[-1]
      flat[name] = jax.random.uniform(jax.random.fold_in(key, number), leaf.shape, minval=-1.0) * np.sqrt(6 / fans)
    elif name[-1] == "pos_embed":
      _, count, features = leaf.shape
      side = int(np.sqrt(count))
      table = sine_positions(side, side, features)
      flat[name] = jnp.pad(jnp.asarray(table), ((count - side * side, 0), (0, 0)))[None]
  return flax.traverse_util.unflatten_dict(flat)
