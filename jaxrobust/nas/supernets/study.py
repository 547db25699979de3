"""The study of RobustART's appendix: which factors of a subnet go with accuracy, and which with robustness?

Of each supernet 200 subnets are drawn at random, and 50 more for each of four factors (input size, kernel, depth, and
expansion or width) that vary alone while all others are the largest: 3 × (200 + 4 × 50) = 1,200. Every subnet is
recalibrated and judged by two programs per image size: one for statistics, one for the clean prediction, the gradient
and the prediction after an FGSM step. Any other attack takes a subnet as `network.subnet_classifier`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.nas.supernets.network import forward, slice_params
from jaxrobust.nas.supernets.space import Subnet, SupernetSpace, describe, pick
from jaxrobust.nas.supernets.training import MEAN, STD, calibrate, resized, to_inputs

# Of statistics and verdicts.
BATCH_SIZE = 64


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
    factors: by name (`space.describe`), and `params`, the weights that it has.
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
  space: SupernetSpace, params: Any, stats: Any, subnet: Subnet, images: Array, labels: Array, eps: Array
) -> tuple[Array, Array]:
  """Tells which images a subnet is right on, and on which it still is after one signed gradient step.

  Args:
    space, params, stats, subnet: the network.
    images: pixels in [0, 1]; labels: their classes.
    eps: length of the step; pixels stay in [0, 1].

  Returns:
    (N,) flags: right, and right afterwards as well.
  """
  answer = lambda x: forward(space, params, stats, subnet, (x - MEAN) / STD)[0]

  def loss(x: Array) -> tuple[Array, Array]:
    logits = answer(x)
    return -jax.nn.log_softmax(logits)[jnp.arange(len(labels)), labels].sum(), logits

  gradient, logits = jax.grad(loss, has_aux=True)(images)
  moved = answer(jnp.clip(images + eps * jnp.sign(gradient), 0, 1))
  right = logits.argmax(-1) == labels
  return right, right & (moved.argmax(-1) == labels)


def check_calibration(count: int, batch_size: int = BATCH_SIZE) -> None:
  """Refuses fewer images than statistics are measured on at a time."""
  if count < batch_size:
    raise InputError(f"statistics need at least a batch of {batch_size} images, got {count}")


def run_study(
  space: SupernetSpace, params: Any, chosen: Sequence[Candidate], calibration: np.ndarray, images: np.ndarray,
  labels: np.ndarray, eps: float, batch_size: int = BATCH_SIZE,
) -> Iterator[StudyRow]:  # fmt: skip
  """Recalibrates and judges subnets.

  Args:
    space, params: the trained supernet.
    chosen: subnets.
    calibration: (N, H, W, 3) pixels in [0, 1] that statistics are measured on, in batches of `batch_size`.
    images, labels: what is judged.
    eps: of the attack.
    batch_size: of statistics and verdicts; a last batch that is smaller is filled up.

  Yields:
    A row for each subnet.
  """
  check_calibration(len(calibration), batch_size)
  shown: dict[int, tuple[list[np.ndarray], list[np.ndarray]]] = {}
  for group, size, subnet in chosen:
    if size not in shown:
      whole = resized(to_inputs(calibration), size)
      parts = [whole[at : at + batch_size] for at in range(0, len(whole) - batch_size + 1, batch_size)]
      shown[size] = parts, list(_batches(resized(images, size), batch_size))
    batches, judged = shown[size]
    stats = calibrate(space, params, subnet, batches)
    pairs = zip(judged, _batches(labels, batch_size), strict=True)
    flags = [judge(space, params, stats, subnet, batch, asked, jnp.float32(eps)) for batch, asked in pairs]
    right, robust = (np.concatenate(part)[: len(labels)] for part in zip(*flags, strict=True))
    weights = sum(leaf.size for leaf in jax.tree.leaves(slice_params(space, params, subnet)))
    factors = {"params": float(weights)} | describe(space, subnet, size)
    yield StudyRow(group, factors, float(right.mean()), float(robust.mean()))


def _batches(rows: np.ndarray, size: int) -> Iterator[np.ndarray]:
  """Yields batches of one size; the last is filled up by its first row."""
  for at in range(0, len(rows), size):
    part = rows[at : at + size]
    yield np.concatenate([part, np.repeat(part[:1], size - len(part), axis=0)])
