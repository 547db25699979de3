"""Weights to start from as PyTorch draws them: those of the benchmark's networks before training.

Measures of untrained networks depend on it. The package's convolutions start from He's normal distribution, variance
2 / fan-in; PyTorch's default is uniform on ±1 / sqrt(fan-in), a sixth of that. Statistics of untrained networks do not
normalize (means 0, variances 1), so with the former the logits of fifteen cells grow until the softmax is flat, and
with them the Hessian is 0.
"""

from __future__ import annotations

import zlib
from typing import Any

import flax
import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.core.types import Array


def torch_default(key: Array, variables: Any) -> Any:
  """Draws kernels and the last layer's biases anew as `torch.nn.Conv2d` and `Linear` do (He et al. 2015, a = sqrt 5).

  Args:
    key: of all draws; each variable has its own by its name, so that cells share what they have in common.
    variables: of a native network.

  Returns:
    Variables of the same shapes; normalizations and statistics as given.
  """
  flat = flax.traverse_util.flatten_dict(variables)
  drawn = dict(flat)
  for path, leaf in flat.items():
    kernel = flat.get((*path[:-1], "kernel"))
    if kernel is not None and path[-1] in ("kernel", "bias"):
      bound = 1 / np.sqrt(np.prod(kernel.shape[:-1]))
      own = jax.random.fold_in(key, zlib.crc32("/".join(path).encode()))
      drawn[path] = jax.random.uniform(own, leaf.shape, jnp.float32, -bound, bound)
  return flax.traverse_util.unflatten_dict(drawn)
