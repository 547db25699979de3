"""Minimum-Margin: its loss, its constructor, and the authors' flags with 3, 5 and 9 targets."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.attacks.losses import check_loss, minimum_margin
from jaxrobust.attacks.registry import attack_id, make_attack
from jaxrobust.attacks.schedule import Cascade, Stage
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.engine.api import attack_images
from tests import realdata
from tests.realdata import needs_data


def schedule(num_steps: int, targets: int, norm: str = "linf") -> Cascade:
  attack = make_attack("mm", norm=norm, num_steps=num_steps)
  return Cascade(tuple(Stage(attack, rank=rank) for rank in range(1, targets + 1)))


def test_loss_is_the_plain_margin():
  logits = jnp.array([4.0, 1.0, -2.0])
  assert float(minimum_margin(logits, 0, 1)) == -3.0
  # Not rescaled, unlike DLR; the gradient is the same wherever the point is.
  assert jax.grad(minimum_margin)(10 * logits, 0, 2).tolist() == [-1.0, 0.0, 1.0]


def test_loss_needs_a_target_and_two_classes():
  check_loss("mm", 2, has_target=True)
  with pytest.raises(InputError, match="needs a target"):
    check_loss("mm", 10, has_target=False)


def test_constructor():
  attack = make_attack("mm")
  assert (attack.loss, attack.num_steps, attack_id(attack)) == ("mm", 20, "linf-mm-20")
  assert make_attack("mm", norm="l1").may_leave_ball is False


def linear_classifier() -> tuple[Classifier, np.ndarray]:
  weights = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
  return Classifier.from_function(lambda x: (x - 0.5).reshape(len(x), -1) @ weights, 4), weights


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_finds_the_nearest_class_of_a_linear_classifier(norm):
  # Class j is reached at (z_y - z_j) / |w_j - w_y|_dual; the nearest is not always the most likely one.
  classifier, weights = linear_classifier()
  images = np.random.default_rng(1).uniform(0.4, 0.6, (12, 2, 2, 3)).astype(np.float32)
  logits = (images - 0.5).reshape(12, -1) @ weights
  labels = logits.argmax(1)
  steps = weights[None] - weights[:, labels].T[:, :, None]
  size = np.linalg.norm(steps, 1 if norm == "linf" else 2, axis=1)
  gaps = logits[np.arange(12), labels][:, None] - logits
  need = np.min(np.where(np.arange(4) == labels[:, None], np.inf, gaps / np.maximum(size, 1e-9)), 1)
  eps = float(np.median(need))
  robust = attack_images(schedule(20, 3, norm), classifier, images, labels, eps=eps).robust
  clear = np.abs(need - eps) > 0.02 * eps
  assert np.array_equal(robust[clear], (need > eps)[clear])


def test_more_targets_never_help_the_defender():
  classifier, _ = linear_classifier()
  images = np.random.default_rng(2).uniform(0.3, 0.7, (16, 2, 2, 3)).astype(np.float32)
  labels = np.asarray(classifier(jnp.asarray(images))).argmax(1)
  one, three = (attack_images(schedule(20, k), classifier, images, labels, eps=0.05).robust for k in (1, 3))
  assert not (three & ~one).any()


def test_two_classes_have_one_target():
  classifier = Classifier.from_function(lambda x: jnp.stack([x.mean((1, 2, 3)), x[:, 0, 0, 0]], 1), 2)
  images = np.full((2, 2, 2, 1), 0.5, np.float32)
  images[:, 0, 0, 0] = 0.4
  # Ranks beyond the classes there are get skipped.
  assert not attack_images(schedule(20, 5), classifier, images, np.zeros(2, int), eps=0.1).robust.any()


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize(
  "name,steps,targets,n",
  [
    ("mm3_20", 20, 3, 500),
    ("mm9_20", 20, 9, 250),
    ("mmplus_k9_100", 100, 9, 40),
  ],
)
def test_flags_of_the_authors(name, steps, targets, n):
  theirs = realdata.reference_flags(f"mm-attack/{name}_linf")[:n]
  eps = realdata.reference_runs()[f"mm-attack/{name}_linf"]["eps"]
  images, labels = realdata.fmnist_test(n)
  ours = attack_images(schedule(steps, targets), realdata.fmnist_network(), images, labels, eps=eps).robust
  assert (ours == theirs).mean() >= 0.99
  assert abs(ours.mean() - theirs.mean()) <= 0.004
