"""Verification outside the attack: one forward pass of the unmodified classifier per candidate.

Candidates that leave their slots gather in an outbox on the devices, and are judged there once it is full: no image
travels to the host and back. The clean pass sends unperturbed images through the very same program, so the logits that
an example counts as correct by and as robust by come from one and the same computation.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from jaxrobust.attacks.losses import margin
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.contract import join_threat
from jaxrobust.core.gradients import ImageLogits
from jaxrobust.core.mesh import AXIS, row_sharding
from jaxrobust.core.threat import Threat
from jaxrobust.core.types import Array
from jaxrobust.engine.success import MARGIN_RTOL, goal_met

# How far an image may be from what its witness renders: two programs agree to rounding only.
RENDER_ATOL = 1e-5
# The values of bytes as floats, by NumPy's division; a device's own may differ in the last bit.
_LEVELS = np.arange(256, dtype=np.float32) / np.float32(255)


class Candidates(NamedTuple):
  """Images to be judged; one row each.

  Attributes:
    image, original: the image and what it was made from.
    label, target: as in `Problem`.
    key: words, for the draws of a randomized classifier.
    witness: what the image was rendered from, or None.
  """

  image: Array
  original: Array
  label: Array
  target: Array
  key: Array
  witness: Any = None


class Judgment(NamedTuple):
  """The classifier's answer for an image, and where the image lies; one row per image.

  Attributes:
    logits: float32; the mean over samples where the classifier is randomized.
    margin: of the goal; positive where it is met.
    met: whether the image meets the goal, by more than rounding errors.
    nan: whether any logit is not finite.
    distance: to the original image, as the threat measures it.
    valid: whether every pixel is finite and in [0, 1], and the image what its witness renders.
  """

  logits: Any
  margin: Any
  met: Any
  nan: Any
  distance: Any
  valid: Any


def byte_levels(images: np.ndarray) -> np.ndarray:
  """Returns images of bytes as the floats that `as_floats` makes of them, on the host."""
  return _LEVELS[images]


def as_floats(images: Array) -> Array:
  """Returns images in [0, 1], whether they came as bytes or as floats; the same bits on every platform."""
  if images.dtype != jnp.uint8:
    return images
  return jax.lax.platform_dependent(images, cpu=lambda x: jnp.asarray(_LEVELS)[x], default=divided_levels)


def divided_levels(levels: Array) -> Array:
  """Returns bytes over 255, rounded to the nearest float as NumPy does, by integers alone.

  Looking up 24,576 pixels in a table moves 4.3 GB as the TPU's compiler counts, and its own division may differ in
  the last bit. A byte is shifted until its first bit is set, so that the quotient has 24 bits, all of a float's.

  >>> divided_levels(jnp.array([0, 51, 255], jnp.uint8)).tolist()
  [0.0, 0.20000000298023224, 1.0]
  """
  shift = jax.lax.clz(levels).astype(jnp.uint32) % 8  # Zero has no first bit, and stays zero.
  numerator = levels.astype(jnp.uint32) << (shift + 24)
  quotient, rest = numerator // 255, numerator % 255
  mantissa = (quotient + (rest > 127)).astype(jnp.float32)
  # A power of two, written as a float's exponent: the product is exact.
  power = jax.lax.bitcast_convert_type((127 - 24 - shift) << 23, jnp.float32)
  return mantissa * power


def judge_one(
  classifier: Classifier, threat: Threat, targeted: Array | bool, row: Candidates, samples: int
) -> Judgment:
  """Returns what the classifier says of one candidate."""
  logits = ImageLogits(classifier, jax.random.wrap_key_data(row.key), samples)(row.image)
  valid = jnp.all((row.image >= 0.0) & (row.image <= 1.0))
  if threat.witnessed:
    rendered = threat.render(row.original, row.witness)
    valid &= jnp.all(jnp.abs(rendered - row.image) <= RENDER_ATOL)
  return Judgment(
    logits,
    margin(logits, row.label, jnp.where(targeted, row.target, -1)),
    goal_met(logits, row.label, row.target, targeted),
    ~jnp.all(jnp.isfinite(logits)),
    threat.distance(row.original, row.image, row.witness),
    valid,
  )


def shown(threat: Threat, image: Array, original: Array, witness: Any) -> Array:
  """Returns one image as it travels to the host: a picture of its witness, if it has one, behind its own channels."""
  picture = None if witness is None else threat.picture(original, witness)
  return image if picture is None else jnp.concatenate([image, picture], axis=-1)


def pack_judgment(judgment: Judgment) -> Array:
  """Returns a judgment of some rows as one array of float32."""
  numbers = [jnp.asarray(part, jnp.float32)[:, None] for part in judgment[1:]]
  return jnp.concatenate([*numbers, judgment.logits], axis=1)


def unpack_judgment(packed: np.ndarray) -> Judgment:
  """Undoes `pack_judgment`, on the host."""
  margins, met, nan, distance, valid = packed[:, :5].T
  return Judgment(packed[:, 5:], margins, met != 0, nan != 0, distance, valid != 0)


@functools.partial(jax.jit, static_argnames=("threat", "rows", "samples", "mesh", "with_images", "own"))
def judge(
  classifier: Classifier,
  arrays: tuple[Any, ...],
  candidates: Candidates,
  targeted: Array | bool,
  *,
  threat: Any,
  rows: int,
  samples: int,
  mesh: Mesh,
  with_images: bool,
  own: bool,
) -> tuple[Array, Array | None]:
  """Judges the first `rows` candidates of each device; returns packed judgments and, where wanted, images as `shown`.

  Args:
    arrays, threat: the two parts of a threat, see `core.contract.split_threat`.
    own: whether it is this classifier that the threat was made for.
  """

  def local(classifier: Classifier, arrays: tuple[Any, ...], targeted: Array | bool, candidates: Candidates) -> Any:
    first = jax.tree.map(lambda leaf: leaf[:rows], candidates)
    measure = join_threat(threat, arrays)
    # With the very weights that the logits come from the compiler makes one pass for both.
    measure = measure.for_classifier(classifier) if own else measure
    judged = jax.vmap(lambda row: judge_one(classifier, measure, targeted, row, samples))(first)
    pictures = jax.vmap(functools.partial(shown, measure))(first.image, first.original, first.witness)
    return pack_judgment(judged), pictures if with_images else None

  specs = (PartitionSpec(), PartitionSpec(), PartitionSpec(), PartitionSpec(AXIS))
  return jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(AXIS), check_vma=False)(
    classifier, arrays, targeted, candidates
  )


@jax.jit
def load(images: Array, label: Array, target: Array, key: Array) -> Candidates:
  """Returns unperturbed images as candidates."""
  floats = as_floats(images)
  return Candidates(floats, floats, label, target, key)


def empty_outbox(rows: int, image_shape: tuple[int, ...], witness: Any, mesh: Mesh) -> Candidates:
  """Returns an outbox of `rows` places over all devices; `witness` is the shape of one, or None."""
  image, number, key = (
    np.zeros((rows, *image_shape), np.float32),
    np.zeros(rows, np.int32),
    np.zeros((rows, 2), np.uint32),
  )
  shapes = jax.tree.map(lambda leaf: np.zeros((rows, *leaf.shape), leaf.dtype), witness)
  rows_of: Any = (image, image, number, number, key, shapes)
  return jax.device_put(Candidates._make(rows_of), row_sharding(mesh))


def judge_logits(logits: np.ndarray, labels: np.ndarray, targets: np.ndarray, targeted: bool) -> Judgment:
  """Returns what known logits of unperturbed images mean for a goal, on the host: the devices are busy.

  Comparisons and one difference of float32, so the same to the last bit as `margin` and `goal_met`.
  """
  count, bad = len(logits), ~np.isfinite(logits).all(1)
  chosen = np.asarray(targets if targeted else labels)[:, None]
  mine = np.take_along_axis(logits, np.maximum(chosen, 0), 1)[:, 0]
  others = np.where(np.arange(logits.shape[1]) == chosen, -np.inf, logits).max(1)
  with np.errstate(invalid="ignore"):
    margins = mine - others if targeted else others - mine
    met = (margins > np.float32(MARGIN_RTOL) * np.abs(logits).max(1)) | bad
  return Judgment(logits, margins, met, bad, np.zeros(count, np.float32), np.ones(count, bool))
