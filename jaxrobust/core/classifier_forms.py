"""Other forms of a classifier: one that chooses among some of its classes, one that computes in another type."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.largest import largest_value
from jaxrobust.core.modules import LinenApply
from jaxrobust.core.types import Array


@dataclasses.dataclass(frozen=True)
class _ChoiceApply:
  """Asks another classifier for its logits, and keeps the largest of each choice."""

  apply: Callable[[Any, Array, Array | None], Array]
  choices: tuple[tuple[int, ...], ...]

  def __call__(self, variables: Any, images: Array, key: Array | None) -> Array:
    most = max(map(len, self.choices))
    # A choice of fewer classes repeats its first, which changes no maximum.
    columns = np.array([choice + choice[:1] * (most - len(choice)) for choice in self.choices])
    return largest_value(self.apply(variables, images, key)[..., columns])


def choosing(classifier: Classifier, choices: tuple[tuple[int, ...], ...]) -> Classifier:
  """Returns a classifier that chooses among some of its classes, or groups of them, alone.

  Args:
    classifier: what is asked.
    choices: the classes of each choice; its logit is the largest of theirs.

  >>> three = Classifier.from_function(lambda x: x.reshape(len(x), -1)[:, :3], num_classes=3)
  >>> choosing(three, ((2,), (0, 1)))(jnp.array([[[[5.0, 1.0, 3.0]]]])).tolist()
  [[3.0, 5.0]]
  """
  if len(choices) < 2:
    raise InputError(f"a classifier chooses among at least 2 classes, got {len(choices)}")
  last = max(map(max, choices))
  if last >= classifier.num_classes:
    raise InputError(f"class {last} is none of the classifier's {classifier.num_classes}")
  apply = _ChoiceApply(classifier.apply, choices)
  adaptive = None if classifier.adaptive is None else _ChoiceApply(classifier.adaptive, choices)
  return dataclasses.replace(classifier, apply=apply, adaptive=adaptive, num_classes=len(choices))


def in_dtype(classifier: Classifier, dtype: Any) -> Classifier:
  """Returns a module's classifier whose network computes in `dtype`; weights are rounded once, images each time.

  Statistics of batch norm stay as they are, and so do sums of normalization layers; logits come back as float32, so
  that losses, norms and verification are those of float32. Raises InputError where the classifier is no plain module.

  >>> from flax import linen as nn
  >>> dense = Classifier.from_module(nn.Dense(2), nn.Dense(2).init(jax.random.key(0), jnp.ones((1, 3))), num_classes=2)
  >>> half = in_dtype(dense, "bfloat16")
  >>> half.variables["module"]["params"]["kernel"].dtype.name, half(jnp.ones((1, 3))).dtype.name
  ('bfloat16', 'float32')
  """
  dtype = jnp.dtype(dtype)
  if not isinstance(classifier.apply, LinenApply):
    raise InputError(f"only a network of flax computes in {dtype.name} by itself; cast inside your own function")
  weights = dict(classifier.variables["module"])
  narrow = lambda leaf: leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf
  weights["params"] = jax.tree.map(narrow, weights["params"])
  apply = dataclasses.replace(classifier.apply, dtype=dtype)
  return dataclasses.replace(classifier, variables={**classifier.variables, "module": weights}, apply=apply)
