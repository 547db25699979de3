"""A denoiser in front of a classifier, trained on what the classifier makes of its images: HGD (Liao et al. 2018,
arXiv:1712.02976), in a small form.

  x̂ = x + D(x),   D trained by  min_D |f(x' + D(x')) - f(x)|₁,   f the classifier's logits, x' adversarial images of f

(the logits-guided variant). D is a U of two levels: 3x3 convolutions of w and 2w channels, the lower ones at half the
size, nearest upsampling and a skip. Adaptive: its own gradient, under which the authors' defense falls (Athalye &
Carlini 2018, arXiv:1804.03286); only images made without it (`--oblivious=images`) are what it was made for.
Defaults of the training: 8/255 (the authors' 16/255 are ImageNet's), one random-start step of 1.25 eps, as in fast
adversarial training, Adam 1e-3. Deviations: the authors' U-Net has five levels, and their images come from several
networks and attacks.

  >>> import numpy as np
  >>> network = Classifier.from_function(lambda x: x.mean((1, 2))[:, :2], 2)
  >>> images = np.random.default_rng(0).uniform(size=(8, 8, 8, 3)).astype(np.float32)
  >>> sorted(fit_denoiser(network, images, epochs=1, batch=4, width=2)["params"])
  ['first', 'half', 'last', 'lower', 'upper']
"""

from __future__ import annotations

import dataclasses
import functools
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

from jaxrobust.core.budget import Budget
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.defense import Defense
from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.core.reading import read_npz
from jaxrobust.core.types import Array
from jaxrobust.defenses.registry import DEFENSES
from jaxrobust.models.layers.conv import Conv
from jaxrobust.models.weights.portable import WEIGHTS, read_portable, write_weights

_FIRST = "params/first/kernel"


class SmallDenoiser(nn.Module):
  """D(x)."""

  width: int = 16

  @nn.compact
  def __call__(self, x: Array) -> Array:
    upper = nn.relu(Conv(self.width, 3, 1, 1, name="first")(x))
    lower = nn.relu(Conv(2 * self.width, 3, 2, 1, name="half")(upper))
    lower = nn.relu(Conv(2 * self.width, 3, 1, 1, name="lower")(lower))
    grown = jnp.repeat(jnp.repeat(lower, 2, axis=1), 2, axis=2)[:, : x.shape[1], : x.shape[2]]
    joined = nn.relu(Conv(self.width, 3, 1, 1, name="upper")(jnp.concatenate([upper, grown], axis=-1)))
    return 0.1 * Conv(x.shape[-1], 3, 1, 1, name="last")(joined)


@DEFENSES.register("denoiser")
@dataclasses.dataclass(frozen=True)
class GuidedDenoiser(Defense):
  """A small denoiser trained by what the classifier makes of its images (HGD).

  Attributes:
    folder: of `save_denoiser`.
  """

  name = "denoiser"
  folder: str = ""

  def __post_init__(self) -> None:
    if not self.folder:
      raise InputError("a denoiser is trained first (jaxrobust.defenses.denoiser): denoiser,folder=FOLDER")

  def config(self) -> dict[str, Any]:
    return {}  # Weights count by themselves.

  def weights(self) -> Any:
    path = Path(self.folder) / WEIGHTS
    if not path.exists():
      raise InputError(f"there is no denoiser in {self.folder}: save_denoiser writes {WEIGHTS} there")
    first = read_npz(path, f"{path} is not a file of weights", (_FIRST,)).get(_FIRST, np.empty(0))
    if first.ndim != 4:
      raise CorruptFileError(f"{path} holds no weights of a denoiser")
    channels, width = first.shape[2:]
    image = jax.ShapeDtypeStruct((1, 8, 8, channels), jnp.float32)
    return read_portable(self.folder, jax.eval_shape(lambda x: SmallDenoiser(width).init(jax.random.key(0), x), image))

  def answer(self, ask: Classifier, weights: Any, images: Array, key: Array | None) -> Array:
    channels, width = weights["params"]["first"]["kernel"].shape[2:]
    if images.shape[-1] != channels:
      raise InputError(f"the denoiser was trained on images of {channels} channels, not of {images.shape[-1]}")
    return ask(images + SmallDenoiser(width).apply(weights, images), key)


def fit_denoiser(
  classifier: Classifier, images: np.ndarray, *, eps: str | float = "8/255", epochs: int = 2, batch: int = 128,
  width: int = 16, learning_rate: float = 1e-3, seed: int = 0,
) -> Any:  # fmt: skip
  """Returns the weights of a denoiser for a classifier, trained on some of the images that it was trained on.

  Args:
    images: (N, H, W, C), floats in [0, 1]; no labels are needed.
    eps: linf budget of the images that it learns to restore.
  """
  images = np.asarray(images, np.float32)
  module, optimizer, size = SmallDenoiser(width), optax.adam(learning_rate), min(batch, len(images))
  if not size:
    raise InputError("a denoiser needs images to be trained on")
  weights = jax.jit(module.init)(jax.random.key(seed), images[:1])
  step = jax.jit(functools.partial(_step, module, optimizer))
  state, order, number = optimizer.init(weights), np.random.default_rng(seed), 0
  for _ in range(epochs):
    rows = order.permutation(len(images))
    for first in range(0, len(rows) - size + 1, size):
      key = jax.random.fold_in(jax.random.key(seed), number)
      some = images[rows[first : first + size]]
      weights, state = step(classifier, weights, state, some, Budget.parse(eps).value, key)
      number += 1
  return weights


def _step(
  module: SmallDenoiser, optimizer: Any, classifier: Classifier, weights: Any, state: Any, images: Array, eps: Array,
  key: Array,
) -> tuple[Any, Any]:  # fmt: skip
  """Makes one update."""
  start, ask = jax.random.split(key)
  clean = classifier(images, ask)
  moved = jnp.clip(images + jax.random.uniform(start, images.shape, minval=-1, maxval=1) * eps, 0.0, 1.0)
  surprise = lambda x: -jnp.sum(jax.nn.softmax(clean) * jax.nn.log_softmax(classifier.adaptive_view(x, ask)))
  step = moved + 1.25 * eps * jnp.sign(jax.grad(surprise)(moved))
  found = jnp.clip(jnp.clip(step, images - eps, images + eps), 0.0, 1.0)

  def distance(weights: Any) -> Array:
    return jnp.mean(jnp.abs(classifier.adaptive_view(found + module.apply(weights, found), ask) - clean))

  updates, state = optimizer.update(jax.grad(distance)(weights), state)
  return optax.apply_updates(weights, updates), state


def save_denoiser(folder: str | os.PathLike, weights: Any) -> Path:
  """Writes the weights of a denoiser, for `denoiser,folder=FOLDER`."""
  Path(folder).mkdir(parents=True, exist_ok=True)
  return write_weights(folder, jax.device_get(weights))
