"""Trains universal perturbations (`attacks.uap`): one array that is added to every image."""

from __future__ import annotations

import functools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks import losses, norms
from jaxrobust.attacks.uap import UAP, SharedPerturbation
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.gradients import ImageLogits, loss_and_grad
from jaxrobust.core.types import Array, Problem

# Loss at which an image counts no more (Shafahi et al. 2020).
ENOUGH = 9.0
# Perturbations are kept around the middle of the box, so that the projection of images serves for them.
_MIDDLE = 0.5


def fit(
  attack: UAP,
  classifier: Classifier,
  images: np.ndarray,
  labels: np.ndarray,
  eps: float,
  targets: np.ndarray | None = None,
  seed: int = 0,
) -> UAP:
  """Returns the attack with a perturbation trained on images against a classifier.

  Args:
    images: (N, H, W, C), floats in [0, 1] or bytes; the first `attack.images` of them count.
    targets: classes to steer to; away from the labels without.
  """
  images, labels = np.asarray(images)[: attack.images], np.asarray(labels)[: attack.images]
  if not len(images):
    raise InputError("a universal perturbation needs images to be trained on")
  images = images / np.float32(255) if images.dtype == np.uint8 else images.astype(np.float32)
  goals = np.full(len(labels), -1) if targets is None else np.asarray(targets)[: attack.images]
  order, batch = np.random.default_rng(seed), min(attack.batch, len(images))
  found = jnp.zeros(images.shape[1:], jnp.float32)
  plain = replace(attack, perturbation=None)
  for epoch in range(attack.epochs):
    rows = order.permutation(len(images))
    for number in range(len(rows) // batch):
      some = rows[number * batch : (number + 1) * batch]
      key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), epoch), number)
      found = _step(plain, classifier, found, images[some], labels[some], goals[some], eps, key)
  return replace(attack, perturbation=SharedPerturbation(np.asarray(found)))


@functools.partial(jax.jit, static_argnums=0)
def _step(
  attack: UAP, classifier: Classifier, found: Array, images: Array, labels: Array, goals: Array, eps: Array, key: Array
) -> Array:
  """Returns the perturbation after one step along the mean gradient of a batch."""

  def gradient(image: Array, label: Array, goal: Array, key: Array) -> Array:
    loss = losses.bind(attack.loss, Problem(image, label, goal, eps, key))
    seen, model = jnp.clip(image + found, 0.0, 1.0), ImageLogits(classifier.adaptive_view, key)
    return loss_and_grad(model, lambda logits: jnp.minimum(loss(logits), ENOUGH), seen).grad

  grad = jnp.mean(jax.vmap(gradient)(images, labels, goals, jax.random.split(key, len(images))), axis=0)
  middle = jnp.full_like(found, _MIDDLE)
  return norms.climb(attack.norm, grad, attack.step_size * eps, middle + found, middle, eps) - middle
