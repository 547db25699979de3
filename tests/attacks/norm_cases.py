"""Points, centers and budgets for the tests of balls, moves and starts; one program per norm serves them all."""

import functools

import jax
import numpy as np

from jaxrobust.attacks import norms

NORMS = ("l1", "l2", "linf")
SHAPE = (4, 4, 3)
ORDER = {"l1": 1, "l2": 2, "linf": np.inf}
EPS = np.array([0.0, 1e-3, 0.01, 0.1, 0.5, 2.0, 10.0, 1e3, 1e6], np.float32)

# One program per norm serves every case: a case is a row.
project = {norm: jax.jit(jax.vmap(functools.partial(norms.project, norm))) for norm in NORMS}
steepest = {norm: jax.jit(jax.vmap(functools.partial(norms.steepest, norm))) for norm in NORMS}
distance = {norm: jax.jit(jax.vmap(functools.partial(norms.distance, norm))) for norm in NORMS}


@functools.cache
def cases(count=180):
  """Images (also outside the box), centers (also on its edge, also all there) and budgets from tiny to huge."""
  rng = np.random.default_rng(0)
  center = rng.uniform(0, 1, (count, *SHAPE))
  center[::3] = np.clip(rng.uniform(-1, 2, (len(center[::3]), *SHAPE)), 0, 1)
  center[::7] = np.round(center[::7])
  spread = 10.0 ** rng.uniform(-3, 0.5, (count, 1, 1, 1))
  image = center + spread * rng.normal(size=center.shape)
  image[::5] = np.clip(image[::5], 0, 1)
  image[1::11] = center[1::11]
  ties = image[2::13]
  image[2::13] = center[2::13] + 0.3 * np.sign(ties - center[2::13])
  eps = EPS[np.arange(count) % len(EPS)].copy()
  eps[1::11] = 0.5  # The center itself at eps 0 has a test of its own.
  return image.astype(np.float32), center.astype(np.float32), eps
