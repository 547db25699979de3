"""Loss and input gradient at a point, with expectation over transformation and BPDA.

An attack calls `loss_and_grad(model, loss, image)`. Where the model is randomized and the
engine samples it `k` times, the same call returns the mean loss, mean logits and mean gradient
(EOT, Athalye et al. 2018, https://arxiv.org/abs/1802.00420): attacks need no code of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array, LogitsFn, Probe

Loss = Callable[[Array], Array]


class ImageLogits:
  """`model(image) -> logits` of one image: the classifier there, sampled `samples` times if randomized.

  Each call draws anew. Inside `vmap` or a loop one call stands for many: give `draw`, the number of the query.
  """

  def __init__(self, classifier: Classifier, key: Array, samples: int = 1):
    self.classifier = classifier
    self.samples = samples
    self._key = key
    self._calls = itertools.count()

  def __call__(self, image: Array, draw: Array | int = 0) -> Array:
    return jnp.mean(self.sampled(image, draw), axis=0)

  def sampled(self, image: Array, draw: Array | int = 0) -> Array:
    """Returns one row of logits per random pass; a deterministic classifier is evaluated once."""
    if not self.classifier.randomized:
      return self.classifier(image[None])
    key = jax.random.fold_in(jax.random.fold_in(self._key, next(self._calls)), draw)
    return jax.vmap(lambda key: self.classifier(image[None], key)[0])(jax.random.split(key, self.samples))


class LossAndGrad(NamedTuple):
  """One gradient evaluation.

  Attributes:
    loss: the loss at the point.
    grad: its input gradient, with non-finite entries set to zero.
    probe: what to report to the engine, gradient health included.
  """

  loss: Array
  grad: Array
  probe: Probe


def loss_and_grad(model: LogitsFn, loss: Loss, image: Array, draw: Array | int = 0) -> LossAndGrad:
  """Returns loss, gradient and probe at `image`; the gradient of the mean loss under EOT.

  Args:
    draw: the number of the query inside `vmap` or a loop, for randomized classifiers.

  Example:
    >>> point = loss_and_grad(lambda x: x.ravel(), lambda z: z[0] - z[1], jnp.ones((1, 2, 1)))
    >>> point.grad.ravel().tolist()
    [1.0, -1.0]
  """
  if not callable(loss):
    made = f": jaxrobust.attacks.losses.bind({loss!r}, problem) makes one of a name" if isinstance(loss, str) else ""
    raise InputError(f"a loss is a function of one image's logits, not {loss!r}{made}")

  def mean_loss(x: Array) -> tuple[Array, Array]:
    logits = draws_at(model, x, draw)
    return jnp.mean(jax.vmap(loss)(logits)), logits

  (value, draws), grad = jax.value_and_grad(mean_loss, has_aux=True)(image)
  return with_gradient(value, grad, image, draws)


def with_gradient(loss: Array, grad: Array, image: Array, draws: Array) -> LossAndGrad:
  """Returns what an evaluation found: a gradient with its health, and the probe of the point.

  Args:
    draws: a row of logits per draw of the model.
  """
  finite = jnp.isfinite(grad)
  probe = _probe(image, draws)._replace(nan=~jnp.all(finite), flat=jnp.all(grad == 0.0))
  return LossAndGrad(loss, jnp.where(finite, grad, 0.0), probe)


def forward_probe(model: LogitsFn, image: Array) -> Probe:
  """Returns what to report of a point at which the model is asked for its logits and no gradient."""
  return _probe(image, draws_at(model, image))


def draws_at(model: LogitsFn, image: Array, draw: Array | int = 0) -> Array:
  """Returns one row of logits per draw of the model."""
  return model.sampled(image, draw) if hasattr(model, "sampled") else model(image)[None]


def _probe(image: Array, draws: Array) -> Probe:
  """Returns the mean of the draws at a point, and whether they name different classes."""
  logits = jnp.mean(draws, axis=0)
  unsure = jnp.any(jnp.argmax(draws, axis=-1) != jnp.argmax(logits)) if len(draws) > 1 else False
  return Probe(image, logits, queries=1, unsure=unsure)


def straight_through(value: Array, smooth: Array) -> Array:
  """Returns `value`, exactly, with the gradient of `smooth`, which must be finite.

  Example:
    >>> jax.value_and_grad(lambda x: straight_through(jnp.round(x), x**2))(0.7)
    (Array(1., dtype=float32, weak_type=True), Array(1.4, dtype=float32, weak_type=True))
  """
  return jax.lax.stop_gradient(value) + (smooth - jax.lax.stop_gradient(smooth))


def bpda(forward: Callable[..., Array], backward: Callable[..., Array] = lambda x, *more: x) -> Callable[..., Array]:
  """Returns `forward` with the gradient of `backward`: backward-pass differentiable approximation.

  With the default, the straight-through estimator for quantizers, JPEG and the like. Arguments after the first, keys
  of a randomized defense say, go to both. `forward` need not be differentiable.

  Example:
    >>> rounded = bpda(jnp.round)
    >>> jax.value_and_grad(lambda x: 2.0 * rounded(x))(0.7)
    (Array(2., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
  """

  def approximated(x: Array, *more: Any) -> Array:
    return straight_through(forward(jax.lax.stop_gradient(x), *more), backward(x, *more))

  return approximated
