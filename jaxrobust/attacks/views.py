"""What transfer attacks look at in place of the image: views of it, and how its gradient is smoothed.

A view is a function of one image, differentiable, drawn anew at every step from the example's own key; shapes are
static, whatever is drawn. The gradient of an attack is the mean over the views. Classes hold hyper-parameters alone:
  DiverseInputs   the image made smaller and put somewhere on a black ground
  Scales          the image divided by powers of two
  Admixed         with a little of other images, and scaled
  Spectrum        with its frequencies weighted at random
  Gaussian        not a view: the kernel that a gradient is convolved with
`transfer_gradients` names their sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array, Problem

# Images of other classes that an example has to be mixed with.
OTHERS = 8


class Views(Protocol):
  """Is what an attack looks at in place of the image.

  Attributes:
    count: how many views there are.
    plain: whether the only view is the image itself.
    others: images of other classes that views are mixed from.
  """

  @property
  def others(self) -> int: ...

  @property
  def count(self) -> int: ...

  @property
  def plain(self) -> bool: ...

  def show(self, key: Array, problem: Problem, image: Array, number: Array | int) -> Array:
    """Returns one view of an image, by its number; `key` belongs to the step."""
    ...


class Placement(NamedTuple):
  """The place of a smaller image: its height, and the rows and columns above and left of it; or nowhere."""

  used: Array
  height: Array
  top: Array
  left: Array


@dataclass(frozen=True)
class DiverseInputs:
  """With a probability, the image resized to `smallest` … 1 of its side and padded with zeros at random.

  Attributes:
    probability: of a resized view.
    smallest: share of the side; the height is any integer from floor(smallest · side) to the side.
  """

  probability: float
  smallest: float
  count = 1
  others: ClassVar[int] = 0

  def __post_init__(self) -> None:
    if not 0 <= self.probability <= 1 or not 0 < self.smallest <= 1:
      raise InputError(f"probability must be in [0, 1] and smallest in (0, 1], got {self.probability}, {self.smallest}")

  @property
  def plain(self) -> bool:
    return self.probability == 0

  def show(self, key: Array, problem: Problem, image: Array, number: Array | int) -> Array:
    del problem, number
    place = self.draw(key, image.shape)
    return jnp.where(place.used, shrunk(image, place), image)

  def draw(self, key: Array, shape: tuple[int, ...]) -> Placement:
    use, size, top, left = jax.random.split(key, 4)
    height = jax.random.randint(size, (), max(int(self.smallest * shape[0]), 1), shape[0] + 1)
    width = _width(height, shape)
    return Placement(
      jax.random.uniform(use) < self.probability,
      height,
      jax.random.randint(top, (), 0, shape[0] - height + 1),
      jax.random.randint(left, (), 0, shape[1] - width + 1),
    )


def _width(height: Array, shape: tuple[int, ...]) -> Array:
  return jnp.round(height * (shape[1] / shape[0])).astype(jnp.int32)


def shrunk(image: Array, place: Placement) -> Array:
  """Returns an image of the same shape that shows `image` smaller, bilinear without antialiasing, on black.

  Sizes are traced: one weight matrix per axis resizes, shifts and pads at once.
  """
  height, width = image.shape[:2]
  scale = jnp.stack([place.height / height, _width(place.height, image.shape) / width])
  shift = jnp.stack([place.top, place.left]).astype(jnp.float32)
  return jax.image.scale_and_translate(image, image.shape, (0, 1), scale, shift, "linear", antialias=False)


@dataclass(frozen=True)
class Scales:
  """The image over 1, 2, 4, …: `scales` copies."""

  scales: int
  others: ClassVar[int] = 0

  @property
  def count(self) -> int:
    return self.scales

  @property
  def plain(self) -> bool:
    return self.scales == 1

  def show(self, key: Array, problem: Problem, image: Array, number: Array | int) -> Array:
    del key, problem
    return image * _halved(number)


def _halved(times: Array | int) -> Array:
  return jnp.exp2(-jnp.asarray(times, jnp.float32))


@dataclass(frozen=True)
class Admixed:
  """The image with `portion` of another, over 1, 2, 4, …: `scales` copies with each of `mixed` others.

  The others are drawn from those of the example (`problem.others`), anew at every step.
  """

  mixed: int
  scales: int
  portion: float
  plain = False
  others: ClassVar[int] = OTHERS

  def __post_init__(self) -> None:
    if self.mixed > self.others:
      raise InputError(f"mixed must be at most {self.others}, the other images of an example, got {self.mixed}")

  @property
  def count(self) -> int:
    return self.mixed * self.scales

  def show(self, key: Array, problem: Problem, image: Array, number: Array | int) -> Array:
    assert problem.others is not None
    chosen = jax.random.permutation(key, self.others)[number // self.scales]
    return (image + self.portion * problem.others[chosen]) * _halved(number % self.scales)


@dataclass(frozen=True)
class Spectrum:
  """The image with noise, its cosine transform multiplied by U(1 - rho, 1 + rho): `spectra` copies.

  The gradient is that at the view, as if the view were the image.

  Attributes:
    rho: how far weights of frequencies lie from 1.
    noise: standard deviation of the Gaussian noise.
  """

  spectra: int
  rho: float
  noise: float
  plain = False
  others: ClassVar[int] = 0

  @property
  def count(self) -> int:
    return self.spectra

  def show(self, key: Array, problem: Problem, image: Array, number: Array | int) -> Array:
    del problem
    noise, mask = jax.random.split(jax.random.fold_in(key, number))
    noisy = image + self.noise * jax.random.normal(noise, image.shape)
    weights = jax.random.uniform(mask, image.shape, minval=1.0 - self.rho, maxval=1.0 + self.rho)
    rows, columns = cosines(image.shape[0]), cosines(image.shape[1])
    seen = _on_both_axes(weights * _on_both_axes(noisy, rows, columns), rows.T, columns.T)
    return image + jax.lax.stop_gradient(seen - image)


def cosines(size: int) -> np.ndarray:
  """Returns the matrix of the orthonormal cosine transform (DCT-II) of `size` numbers."""
  frequency, place = np.arange(size)[:, None], np.arange(size)[None]
  matrix = np.cos(np.pi * frequency * (2 * place + 1) / (2 * size)) * np.sqrt(2 / size)
  matrix[0] /= np.sqrt(2)
  return matrix.astype(np.float32)


@dataclass(frozen=True)
class Gaussian:
  """Smooths a gradient: each channel convolved with a Gaussian, zeros beyond the edges.

  Attributes:
    kernel: pixels on a side; 1 changes nothing.
    sigma: standard deviations from the middle to the edge of the kernel.
  """

  kernel: int
  sigma: float

  def __post_init__(self) -> None:
    if self.kernel % 2 == 0:
      raise InputError(f"kernel must be odd, or it shifts the gradient, got {self.kernel}")

  def __call__(self, grad: Array) -> Array:
    if self.kernel == 1:
      return grad
    return _on_both_axes(grad, self.matrix(grad.shape[0]), self.matrix(grad.shape[1]))

  def matrix(self, size: int) -> np.ndarray:
    """Returns the convolution along one axis of `size` pixels: the kernel is a product of two such."""
    weights = np.exp(-(np.linspace(-self.sigma, self.sigma, self.kernel) ** 2) / 2)
    weights /= weights.sum()
    offset = np.arange(size)[None] - np.arange(size)[:, None] + self.kernel // 2
    inside = (offset >= 0) & (offset < self.kernel)
    return np.where(inside, weights[np.clip(offset, 0, self.kernel - 1)], 0.0).astype(np.float32)


def _on_both_axes(image: Array, rows: np.ndarray, columns: np.ndarray) -> Array:
  return jnp.einsum("ih,hwc,jw->ijc", rows, image, columns, precision="highest")
