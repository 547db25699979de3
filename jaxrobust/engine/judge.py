"""Verification outside the attack: one forward pass of the unmodified classifier per image.

The clean pass uses the same program on the unperturbed images, so the logits that an example counts as correct
by and as robust by come from one and the same computation.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from jaxrobust.attacks import norms
from jaxrobust.attacks.losses import margin
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import VerificationError
from jaxrobust.core.gradients import ImageLogits
from jaxrobust.core.mesh import AXIS, place_rows
from jaxrobust.core.threat import inside
from jaxrobust.core.types import Array
from jaxrobust.engine.success import adversarial


class Judgement(NamedTuple):
  """What the classifier says of an image, and where the image lies; one row per image.

  Attributes:
    logits: float32; the mean over samples where the classifier is randomised.
    margin: of the goal; positive where it is met.
    adversarial: whether the image meets the goal, by more than rounding errors.
    nan: whether any logit is not finite.
    distance: to the original image, in the attack's norm.
    in_box: whether every pixel is finite and in [0, 1].
  """

  logits: Any
  margin: Any
  adversarial: Any
  nan: Any
  distance: Any
  in_box: Any


class Case(NamedTuple):
  """Images to be judged; one row each."""

  image: Array
  original: Array
  label: Array
  target: Array
  key_data: Array


def judge_one(classifier: Classifier, targeted: Array | bool, case: Case, norm: str, samples: int) -> Judgement:
  """What the classifier says of one image."""
  logits = ImageLogits(classifier, jax.random.wrap_key_data(case.key_data), samples)(case.image)
  return Judgement(
    logits,
    margin(logits, case.label, jnp.where(targeted, case.target, -1)),
    adversarial(logits, case.label, case.target, targeted),
    ~jnp.all(jnp.isfinite(logits)),
    norms.distance(norm, case.image - case.original),
    jnp.all((case.image >= 0.0) & (case.image <= 1.0)),
  )


@functools.partial(jax.jit, static_argnames=("norm", "samples", "mesh"))
def _judge(classifier: Classifier, targeted: bool, cases: Case, *, norm: str, samples: int, mesh: Mesh) -> Judgement:
  one = functools.partial(judge_one, norm=norm, samples=samples)
  rows = jax.vmap(one, in_axes=(None, None, 0))
  specs = (PartitionSpec(), PartitionSpec(), PartitionSpec(AXIS))
  return jax.shard_map(rows, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(AXIS), check_vma=False)(
    classifier, targeted, cases
  )


def judge(
  classifier: Classifier, targeted: bool, cases: Case, size: int, *, norm: str, samples: int, mesh: Mesh
) -> Judgement:
  """Judges the cases in one padded batch of `size` rows."""
  count = len(cases.image)
  rows = np.minimum(np.arange(size), count - 1)
  placed = place_rows(jax.tree.map(lambda leaf: leaf[rows], cases), mesh)
  verdict = _judge(classifier, targeted, placed, norm=norm, samples=samples, mesh=mesh)
  return jax.tree.map(lambda leaf: np.array(leaf)[:count], verdict)


@jax.jit
def _goals(logits: Array, labels: Array, targets: Array, targeted: bool) -> tuple[Array, Array]:
  def one(row: Array, label: Array, target: Array) -> tuple[Array, Array]:
    return margin(row, label, jnp.where(targeted, target, -1)), adversarial(row, label, target, targeted)

  return jax.vmap(one)(logits, labels, targets)


def judge_logits(logits: np.ndarray, labels: np.ndarray, targets: np.ndarray, targeted: bool) -> Judgement:
  """What known logits of unperturbed images mean for a goal: comparisons only, so the same to the last bit."""
  margins, beaten = _goals(logits, np.asarray(labels, np.int32), np.asarray(targets, np.int32), targeted)
  count = len(logits)
  bad = ~np.isfinite(logits).all(1)
  return Judgement(
    logits, np.asarray(margins), np.asarray(beaten), bad, np.zeros(count, np.float32), np.ones(count, bool)
  )


def check_inside(
  examples: np.ndarray,
  judgement: Judgement,
  eps: np.ndarray,
  names: list[str],
  used: np.ndarray,
  minimal: np.ndarray,
  atol: float,
) -> None:
  """Raises where an image in use lies outside the box or, for a budget attack, outside its ball."""
  outside = ~inside(judgement.distance, eps, atol) & ~minimal
  for what, bad in (("not finite or outside [0, 1]", ~judgement.in_box), ("outside its ball", outside)):
    bad = bad & used
    if bad.any():
      row = int(np.argmax(bad))
      raise VerificationError(
        f"{names[row]} returned an image {what} for example {int(examples[row])}: distance"
        f" {judgement.distance[row]:.7g}, eps {eps[row]:.7g} ({int(bad.sum())} of {len(bad)} images)"
      )
