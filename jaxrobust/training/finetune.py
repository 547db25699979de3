"""Starting from somebody's weights: everything that fits is taken, a head for other classes is made anew."""

from __future__ import annotations

import sys
from typing import Any

import flax
import jax
import numpy as np
from flax import linen as nn

from jaxrobust.core.errors import InputError
from jaxrobust.models.registry import abstract_variables
from jaxrobust.models.zoo import load_classifier


def start_from(path: str, module: nn.Module, image_shape: tuple[int, int, int], seed: int = 0) -> Any:
  """Variables for `module` from a saved classifier; only a head for other classes may differ, and is drawn anew."""
  classifier = load_classifier(path)
  given = flax.traverse_util.flatten_dict(classifier.variables["module"])
  wanted = flax.traverse_util.flatten_dict(abstract_variables(module, image_shape))
  if set(given) != set(wanted):
    odd = sorted("/".join(name) for name in set(given) ^ set(wanted))
    raise InputError(f"{path} holds another architecture than {type(module).__name__}: {', '.join(odd[:3])}")
  other = [name for name in wanted if given[name].shape != wanted[name].shape]
  classes = classifier.num_classes, getattr(module, "num_classes", None)
  heads = lambda name: (given[name].shape[-1], wanted[name].shape[-1]) == classes
  same = lambda name: given[name].shape[:-1] == wanted[name].shape[:-1]
  last = {name[:-1] for name in other}
  if len(last) > 1 or not all(heads(name) and same(name) for name in other):
    names = ", ".join(sorted("/".join(name) for name in other))
    raise InputError(f"{path} does not fit {type(module).__name__}: {names} have other shapes")
  if other:
    print(f"the head {'/'.join(other[0][1:-1])} is new: {path} has another number of classes", file=sys.stderr)
    fresh = module.init({"params": jax.random.key(seed)}, np.zeros((1, *image_shape), np.float32))
    given |= {name: leaf for name, leaf in flax.traverse_util.flatten_dict(fresh).items() if name in other}
  return flax.traverse_util.unflatten_dict(given)
