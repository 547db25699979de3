"""Two functions have one fingerprint only if they compute the same: closures, globals, objects and fields count."""

import functools
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from jaxrobust import testing
from jaxrobust.core.classifier import Classifier
from jaxrobust.models.registry import make_model
from jaxrobust.models.zoo import fingerprint

SCALE = 2.0


class Scaled(nn.Module):
  sign: float = 1.0
  bend: Any = nn.relu

  @nn.compact
  def __call__(self, x):
    return self.sign * self.bend(nn.Dense(3)(x.mean((1, 2))))


class Times:
  def __init__(self, w, other=None):
    self.w, self.other = w, other

  def __call__(self, x):
    return x @ self.w

  def twice(self, x):
    return 2 * self(x)


def closing_over(w):
  return lambda x: x @ w


def helper(x):
  return SCALE * x


def with_default(x, by=1.0):
  return by * helper(x)


@functools.cache
def dense():
  return Scaled().init(jax.random.key(0), jnp.zeros((1, 4, 4, 3)))


def module(*fields):
  return Classifier.from_module(Scaled(*fields), dense(), num_classes=3)


def function(call, variables=None):
  return Classifier.from_function(call, 3, variables=variables)


W = np.arange(9, dtype=np.float32).reshape(3, 3)
PAIRS = {
  "code": lambda: (function(lambda x: x.mean((1, 2))), function(lambda x: -x.mean((1, 2)))),
  "code beside variables": lambda: (function(lambda v, x: x @ v, W), function(lambda v, x: -x @ v, W)),
  "constant": lambda: (function(lambda x: 2.0 * x), function(lambda x: 3.0 * x)),
  "closure": lambda: (function(closing_over(W)), function(closing_over(-W))),
  "closure on the device": lambda: (function(closing_over(jnp.asarray(W))), function(closing_over(-jnp.asarray(W)))),
  "closure under jit": lambda: (function(jax.jit(closing_over(W))), function(jax.jit(closing_over(-W)))),
  "closure under vmap": lambda: (function(jax.vmap(closing_over(W))), function(jax.vmap(closing_over(-W)))),
  "closure in a closure": lambda: (function(closing_over(Times(W))), function(closing_over(Times(-W)))),
  "partial": lambda: (function(functools.partial(with_default, by=2)), function(functools.partial(with_default, by=3))),
  "object": lambda: (function(Times(W)), function(Times(-W))),
  "method": lambda: (function(Times(W).twice), function(Times(-W).twice)),
  "field of a module": lambda: (module(), module(-1.0)),
  "function in a module": lambda: (module(1.0, nn.relu), module(1.0, nn.gelu)),
  "module of this package": lambda: (module(), Classifier.from_module(make_model("cnn-tiny", 3), dense())),
  "key": lambda: (function(closing_over(jax.random.key(0))), function(closing_over(jax.random.key(1)))),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_a_fingerprint_covers_what_the_function_computes(kind):
  first, second = map(fingerprint, PAIRS[kind]())
  assert first != second and (first, second) == tuple(map(fingerprint, PAIRS[kind]()))


def test_a_fingerprint_covers_the_globals_a_function_uses(monkeypatch):
  before = fingerprint(function(with_default))
  monkeypatch.setitem(globals(), "W", -W)  # Which it does not use.
  assert fingerprint(function(with_default)) == before
  monkeypatch.setitem(globals(), "SCALE", -2.0)
  assert fingerprint(function(with_default)) != before


def test_a_network_whose_state_cannot_be_read_is_never_taken_for_another():
  hidden = function(Times(W, threading.Lock()))
  assert fingerprint(hidden) != fingerprint(hidden) and fingerprint(hidden).startswith("unknown-")


def test_calling_a_network_does_not_change_its_fingerprint():
  images = jnp.ones((2, 3))
  for classifier in (function(jax.jit(closing_over(W))), function(Times(W)), testing.fixture()):
    before = fingerprint(classifier)
    classifier(images if classifier.variables is None else jnp.ones((2, *testing.SHAPE)))
    assert fingerprint(classifier) == before
