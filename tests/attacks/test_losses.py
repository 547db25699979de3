"""Losses against values computed by hand, an independent float64 NumPy version and finite differences."""

import math

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters.partial_eval import dce_jaxpr

from jaxrobust.attacks.losses import LOSSES, batched, bind, check_loss
from jaxrobust.attacks.pgd import FGSM
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.compilation import count_compilations
from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.core.types import Problem
from jaxrobust.engine.api import attack_images

compiled = {name: jax.jit(LOSSES[name].function) for name in ("ce", "margin", "cw", "dlr", "dlr-t")}
slopes = {name: jax.jit(jax.grad(LOSSES[name].function)) for name in compiled}


def value(name, logits, label, target):
  return float(compiled[name](jnp.asarray(logits, jnp.float32), jnp.asarray(label), jnp.asarray(target)))


CORRECT, WRONG, TIED = (4.0, 2.0, 1.0, 0.0), (2.0, 4.0, 1.0, 0.0), (3.0, 3.0, 1.0, 0.0)
LOG_SUM = math.log(math.exp(4) + math.exp(2) + math.exp(1) + 1)
TIED_SUM = math.log(2 * math.exp(3) + math.exp(1) + 1)


@pytest.mark.parametrize(
  ("name", "logits", "target", "wanted"),
  [
    # Untargeted; the label is class 0.
    ("ce", CORRECT, -1, LOG_SUM - 4),
    ("ce", WRONG, -1, LOG_SUM - 2),
    ("ce", TIED, -1, TIED_SUM - 3),
    ("margin", CORRECT, -1, -2.0),
    ("margin", WRONG, -1, 2.0),
    ("margin", TIED, -1, 0.0),
    ("cw", CORRECT, -1, -2.0),
    ("cw", WRONG, -1, 0.0),
    ("cw", TIED, -1, 0.0),
    ("dlr", CORRECT, -1, -2 / 3),
    ("dlr", WRONG, -1, 2 / 3),
    ("dlr", TIED, -1, 0.0),
    ("dlr", (0.0, 4.0, 2.0, 1.0), -1, 4 / 3),
    # Towards class 2 and, where it already wins, toward class 1.
    ("ce", CORRECT, 2, 1 - LOG_SUM),
    ("ce", WRONG, 1, 4 - LOG_SUM),
    ("ce", TIED, 1, 3 - TIED_SUM),
    ("margin", CORRECT, 2, -3.0),
    ("margin", WRONG, 1, 2.0),
    ("margin", WRONG, 2, -3.0),
    ("margin", TIED, 1, 0.0),
    ("cw", CORRECT, 2, -3.0),
    ("cw", WRONG, 1, 0.0),
    ("cw", WRONG, 2, -3.0),
    ("dlr-t", CORRECT, 2, -3 / (4 - 0.5)),
    ("dlr-t", WRONG, 1, 2 / (4 - 0.5)),
    ("dlr-t", WRONG, 2, -1 / (4 - 0.5)),
    ("dlr-t", TIED, 1, 0.0),
  ],
)
def test_values_by_hand(name, logits, target, wanted):
  assert value(name, logits, 0, target) == pytest.approx(wanted, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", compiled)
def test_all_logits_equal_give_a_finite_loss_and_gradient(name):
  target = 1 if name == "dlr-t" else -1
  assert math.isfinite(value(name, (1.0,) * 4, 0, target))
  assert np.isfinite(slopes[name](jnp.ones(4), jnp.asarray(0), jnp.asarray(target))).all()


def reference(name, z, label, target):
  """The same losses, in float64 NumPy and written from the papers."""
  top, others = np.sort(z)[::-1], lambda i: np.delete(z, i).max()
  log_sum = np.log(np.exp(z - z.max()).sum()) + z.max()
  margin = others(label) - z[label] if target < 0 else z[target] - others(target)
  return {
    "ce": lambda: log_sum - z[label] if target < 0 else z[target] - log_sum,
    "margin": lambda: margin,
    "cw": lambda: min(margin, 0.0),
    "dlr": lambda: -(z[label] - others(label)) / (top[0] - top[2]),
    "dlr-t": lambda: -(z[label] - z[target]) / (top[0] - (top[2] + top[3]) / 2),
  }[name]()


def rows(name):
  rng = np.random.default_rng(0)
  for case in range(12):
    logits = (rng.permutation(6) + rng.uniform(-0.3, 0.3, 6)) * (0.3, 1.0, 3.0)[case % 3]
    label, target = rng.choice(6, 2, replace=False)
    yield logits, int(label), int(target) if name == "dlr-t" or (case % 2 and name != "dlr") else -1


@pytest.mark.parametrize("name", compiled)
def test_values_and_gradients_equal_finite_differences_in_float64(name):
  step = 1e-6
  for logits, label, target in rows(name):
    assert value(name, logits, label, target) == pytest.approx(
      reference(name, logits, label, target), rel=1e-5, abs=1e-5
    )
    wanted = [
      (reference(name, logits + step * unit, label, target) - reference(name, logits - step * unit, label, target))
      for unit in np.eye(6)
    ]
    grad = slopes[name](jnp.asarray(logits, jnp.float32), jnp.asarray(label), jnp.asarray(target))
    np.testing.assert_allclose(grad, np.array(wanted) / (2 * step), rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("name", ["dlr", "dlr-t"])
@pytest.mark.parametrize(("scale", "shift"), [(1.0, 100.0), (1e-3, 0.0), (1e3, 0.0), (10.0, -50.0)])
def test_dlr_does_not_change_with_shift_and_scale_of_the_logits(name, scale, shift):
  for logits, label, target in rows(name):
    base = value(name, logits, label, target)
    assert value(name, logits * scale + shift, label, target) == pytest.approx(base, rel=2e-4, abs=2e-4)
    assert value("margin", logits * 3, label, -1) == pytest.approx(3 * value("margin", logits, label, -1), rel=1e-5)


@pytest.mark.parametrize("name", compiled)
def test_batched_losses_are_the_loss_of_each_row(name):
  logits, labels, targets = map(np.array, zip(*rows(name), strict=True))
  got = batched(LOSSES[name].function)(jnp.asarray(logits, jnp.float32), jnp.asarray(labels), jnp.asarray(targets))
  np.testing.assert_allclose(got, [value(name, *row) for row in rows(name)], rtol=1e-5, atol=1e-6)


def attack(classes, loss, targets=None):
  classifier = Classifier.from_function(lambda x: x.reshape(len(x), -1)[:, :classes], classes)
  images = np.full((2, 4, 4, 1), 0.5, np.float32)
  return attack_images(FGSM(loss=loss), classifier, images, np.zeros(2, int), eps=0.1, targets=targets)


@pytest.mark.parametrize(
  ("classes", "loss", "targets", "reason"),
  [
    (2, "dlr", None, "loss 'dlr' needs at least 3 classes, the classifier has 2"),
    (3, "dlr-t", np.ones(2, int), "loss 'dlr-t' needs at least 4 classes, the classifier has 3"),
    (4, "dlr-t", None, "loss 'dlr-t' needs a target class: pass targets, or run it toward several classes"),
    (4, "dlr", np.ones(2, int), "loss 'dlr' cannot steer to a target; use 'ce', 'cw' or 'dlr-t'"),
  ],
)
def test_a_loss_that_is_undefined_is_refused_before_anything_compiles(classes, loss, targets, reason):
  with count_compilations() as count, pytest.raises(InputError, match=reason):
    attack(classes, loss, targets)
  assert count.programs == 0


@pytest.mark.parametrize(("loss", "near"), [("dlrt", "'dlr-t'"), ("margn", "'margin'"), ("c-w", "'cw'")])
def test_an_unknown_loss_gets_the_nearest_names_before_anything_compiles(loss, near):
  with (
    count_compilations() as count,
    pytest.raises(UnknownNameError, match=f"unknown loss '{loss}'; did you mean {near}"),
  ):
    attack(4, loss)
  assert count.programs == 0


@pytest.mark.parametrize(
  ("name", "least", "targeted"), [("ce", 2, False), ("cw", 2, True), ("dlr", 3, False), ("dlr-t", 4, True)]
)
def test_the_fewest_classes_are_enough(name, least, targeted):
  check_loss(name, least, targeted)
  problem = Problem(jnp.zeros((1, 1, 1)), jnp.asarray(0), jnp.asarray(1 if targeted else -1), jnp.ones(()), None)
  assert np.isfinite(bind(name, problem)(jnp.arange(float(least))))


def test_a_bound_loss_checks_the_static_length_of_the_logits():
  problem = Problem(jnp.zeros((1, 1, 1)), jnp.asarray(0), jnp.asarray(-1), jnp.ones(()), None)
  with pytest.raises(InputError, match="loss 'dlr' needs at least 3 classes, got 2"):
    jax.eval_shape(bind("dlr", problem), jnp.zeros(2))


def _used(function):
  """The program of a function of five logits, without what nothing needs."""
  return dce_jaxpr(jax.make_jaxpr(function)(jnp.arange(5.0)).jaxpr, [True])[0]


def _compares_floats(jaxpr) -> bool:
  inner = [value for eqn in jaxpr.eqns for value in jax.tree.leaves(eqn.params, is_leaf=lambda v: hasattr(v, "jaxpr"))]
  equal = [eqn.invars for eqn in jaxpr.eqns if eqn.primitive.name == "eq" and eqn.invars[0].aval.dtype.kind == "f"]
  here = any(not isinstance(side, jax.extend.core.Literal) for sides in equal for side in sides[1:])
  return here or any(_compares_floats(value.jaxpr) for value in inner if hasattr(value, "jaxpr"))


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_no_gradient_depends_on_two_computations_of_a_logit_being_equal(name):
  """XLA may compute a logit twice and round it differently: `logit == maximum` is then false for all of them."""
  gradient = jax.grad(lambda logits: LOSSES[name].function(logits, jnp.int32(0), jnp.int32(1)))
  assert not _compares_floats(_used(gradient))
  assert _compares_floats(_used(jax.grad(jnp.max))), "this test can fail"
