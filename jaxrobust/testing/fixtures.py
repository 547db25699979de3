"""Tiny classifiers and images for the checks: no data, no weights, and a few seconds."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.types import Array

CLASSES = 5
SHAPE = (6, 6, 3)


@jax.custom_vjp
def _poisoned(images: Array, thresholds: Array) -> Array:
  """Returns the images; the gradient is NaN where the first pixel is above a threshold, 0 where the next is below."""
  return images


def _poisoned_fwd(images: Array, thresholds: Array) -> tuple[Array, tuple[Array, Array]]:
  return images, (images[:, :1, :1, :1] > thresholds[0], images[:, :1, 1:2, :1] < thresholds[1])


def _poisoned_bwd(where: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
  bad, flat = where
  return jnp.where(bad, jnp.nan, jnp.where(flat, 0.0, cotangent)), jnp.zeros(2)


_poisoned.defvjp(_poisoned_fwd, _poisoned_bwd)


def _network(variables: dict[str, Array], images: Array) -> Array:
  # One function for all fixtures, so that they share compiled programs.
  return _hidden(variables, images) @ variables["second"] + variables["bias"]


def _hidden(variables: dict[str, Array], images: Array) -> Array:
  pixels = _poisoned(images, variables["thresholds"]).reshape(len(images), -1)
  return jnp.tanh(pixels @ variables["first"])


# Where gradients are not numbers and where they are zero, by kind: above a value of one pixel, below that of another.
_THRESHOLDS = {"nan": (0.75, -1.0), "troubled": (0.62, 0.2)}


def fixture(kind: str = "mlp") -> Classifier:
  """Returns a small classifier, whose features are its hidden layer: `mlp` (smooth), `flat` (zero
  gradient), `nan` (a NaN gradient where the first pixel is bright), `troubled` (NaN at some points, zero at others)."""
  rng = np.random.default_rng(7)
  gain = 0.0 if kind == "flat" else 1.0
  weights = {
    "first": jnp.asarray(rng.normal(size=(int(np.prod(SHAPE)), 16)) * 0.5, jnp.float32),
    "second": jnp.asarray(gain * rng.normal(size=(16, CLASSES)), jnp.float32),
    "bias": jnp.asarray((1 - gain) * np.arange(CLASSES, 0.0, -1.0), jnp.float32),
    "thresholds": jnp.asarray(_THRESHOLDS.get(kind, (2.0, -1.0)), jnp.float32),
  }
  name = "jaxrobust.testing.fixture"
  return Classifier.from_function(_network, CLASSES, variables=weights, features=_hidden, name=name)


def examples(classifier: Classifier, count: int = 16) -> tuple[np.ndarray, np.ndarray]:
  """Returns images away from the box's corners, labeled as the classifier sees them."""
  images = np.random.default_rng(3).uniform(0.1, 0.7, (count, *SHAPE)).astype(np.float32)
  return images, np.asarray(classifier(jnp.asarray(images))).argmax(1)


def starting_points() -> tuple[np.ndarray, np.ndarray]:
  """Returns images of every class, with what the smooth fixture calls them."""
  images = np.random.default_rng(5).uniform(0.0, 1.0, (128, *SHAPE)).astype(np.float32) ** 2
  return images, np.asarray(fixture()(jnp.asarray(images))).argmax(1)


class Recorder:
  """The smooth fixture as a randomized classifier that notes the key of each evaluation, once the devices made it.

  Attributes:
    classifier: answers as the fixture does, whatever the key.
    keys: words of the keys of all evaluations since they were last cleared.
    backward: how many gradients were taken through them since.
  """

  def __init__(self) -> None:
    base = fixture()
    self.keys: list[tuple[int, ...]] = []
    self.backward = 0

    @jax.custom_vjp
    def noted(logits: Array) -> Array:
      return logits

    def back(_: None, cotangent: Array) -> tuple[Array]:
      jax.debug.callback(self._note_backward, cotangent[0, 0])
      return (cotangent,)

    noted.defvjp(lambda logits: (logits, None), back)

    def logits(variables: dict[str, Array], images: Array, key: Array) -> Array:
      # With a pixel, so that images which share a key inside `vmap` are noted one by one.
      jax.debug.callback(self._note, jax.random.key_data(key), images[0, 0, 0, 0])
      return noted(_network(variables, images))

    self.classifier = Classifier.from_function(
      logits, CLASSES, variables=base.variables, randomized=True, features=_hidden
    )

  def _note(self, words: Array, pixel: Array) -> None:
    del pixel
    self.keys.append(tuple(np.asarray(words).tolist()))

  def _note_backward(self, part: Array) -> None:
    del part
    self.backward += 1
