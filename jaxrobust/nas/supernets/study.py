"""The study of RobustART's appendix: which factors of a subnet go with accuracy, and which with robustness?

Of each supernet 200 subnets are drawn at random, and 50 more for each of four factors (input size, kernel, depth, and
expansion or width) that vary alone while all others are the largest: 3 × (200 + 4 × 50) = 1,200. Every subnet is
recalibrated and judged by two programs per image size: one for statistics, one for the clean prediction, the gradient
and the prediction after an FGSM step.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.core.types import Array
from jaxrobust.nas.supernets.network import forward
from jaxrobust.nas.supernets.space import Subnet, SupernetSpace, describe, pick
from jaxrobust.nas.supernets.training import calibrate, resized


class Candidate(NamedTuple):
  """A subnet of a study.

  Attributes:
    group: "random", or the factor that alone is varied.
    size: of its images.
    subnet: the network.
  """

  group: str
  size: int
  subnet: Subnet


class StudyRow(NamedTuple):
  """A subnet judged.

  Attributes:
    group: as the candidate's.
    factors: by name (`space.describe`).
    clean, robust: shares of examples.
  """

  group: str
  factors: dict[str, float]
  clean: float
  robust: float


def candidates(space: SupernetSpace, seed: int = 0, count: int = 200, each: int = 50) -> list[Candidate]:
  """Draws the subnets of a study.

  Args:
    space: of the supernet.
    seed: of the draws.
    count: with everything drawn.
    each: with one factor drawn, for each factor.

  Returns:
    Random ones first, then factor by factor; `size` is a factor too.
  """
  rng = np.random.default_rng(seed)
  size = lambda: int(space.sizes[rng.integers(len(space.sizes))])
  found = [Candidate("random", size(), pick(space, rng)) for _ in range(count)]
  found += [Candidate("size", size(), pick(space, rng, ())) for _ in range(each)]
  for factor in space.factors():
    found += [Candidate(factor, space.sizes[-1], pick(space, rng, (factor,))) for _ in range(each)]
  return found


@functools.partial(jax.jit, static_argnums=0)
def judge(
  space: SupernetSpace, params: Any, stats: Any, subnet: Subnet, images: Array, labels: Array, step: Array
) -> tuple[Array, Array]:
  """Tells which images a subnet is right on, and on which it still is after one signed gradient step.

  Args:
    space, params, stats, subnet: the network.
    images: normalized; labels: their classes.
    step: (3,) length of the step in each channel, in normalized units; images stay within what they can be.

  Returns:
    (N,) flags: right, and right afterwards as well.
  """

  def loss(x: Array) -> tuple[Array, Array]:
    logits = forward(space, params, stats, subnet, x)[0]
    return -jax.nn.log_softmax(logits)[jnp.arange(len(labels)), labels].sum(), logits

  gradient, logits = jax.grad(loss, has_aux=True)(images)
  moved = forward(space, params, stats, subnet, images + step * jnp.sign(gradient))[0]
  right = logits.argmax(-1) == labels
  return right, right & (moved.argmax(-1) == labels)


def run_study(
  space: SupernetSpace, params: Any, chosen: Sequence[Candidate], calibration: np.ndarray, images: np.ndarray,
  labels: np.ndarray, step: np.ndarray, batch_size: int = 64,
) -> Iterator[StudyRow]:  # fmt: skip
  """Recalibrates and judges subnets.

  Args:
    space, params: the trained supernet.
    chosen: subnets.
    calibration: (N, H, W, 3) normalized images that statistics are measured on, a multiple of `batch_size`.
    images, labels: what is judged.
    step: of the attack, (3,) in normalized units.
    batch_size: of the statistics.

  Yields:
    A row for each subnet.
  """
  shown: dict[int, tuple[list[np.ndarray], np.ndarray]] = {}
  for group, size, subnet in chosen:
    if size not in shown:
      whole = resized(calibration, size)
      parts = [whole[at : at + batch_size] for at in range(0, len(whole) - batch_size + 1, batch_size)]
      shown[size] = parts, resized(images, size)
    batches, judged = shown[size]
    stats = calibrate(space, params, subnet, batches)
    right, robust = judge(space, params, stats, subnet, judged, labels, step)
    yield StudyRow(group, describe(space, subnet, size), float(right.mean()), float(robust.mean()))
