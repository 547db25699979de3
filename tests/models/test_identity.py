"""A function is known by the name and version its maker gives, its weights by themselves, our modules by both."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from jaxrobust import testing
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.models.registry import MODELS, make_model
from jaxrobust.models.zoo import UNNAMED, fingerprint, is_ours

pytestmark = pytest.mark.smoke

W = np.arange(9, dtype=np.float32).reshape(3, 3)


class Foreign(nn.Module):
  inner: nn.Module | None = None
  num_classes: int = 3

  @nn.compact
  def __call__(self, x):
    return nn.Dense(3)(x.mean((1, 2)))


def function(call=lambda v, x: x @ v, variables=W, **named):
  return Classifier.from_function(call, 3, variables=variables, **named)


def module(net=None, **named):
  return Classifier.from_module(Foreign() if net is None else net, {"w": W}, **named)


@pytest.mark.parametrize("make", [function, module])
def test_a_name_a_version_and_the_weights_tell_functions_apart(make):
  prints = [fingerprint(make(**named)) for named in ({"name": "a"}, {"name": "b"}, {"name": "a", "version": "2"})]
  assert len(set(prints)) == 3 and not any(text.startswith(UNNAMED) for text in prints)
  assert prints == [
    fingerprint(make(**named)) for named in ({"name": "a"}, {"name": "b"}, {"name": "a", "version": "2"})
  ]


def test_of_one_name_the_weights_decide_and_the_code_does_not():
  same = function(lambda v, x: -x @ v, name="a", version="1")
  assert fingerprint(same) == fingerprint(function(name="a", version="1"))
  assert fingerprint(function(variables=-W, name="a", version="1")) != fingerprint(same)


@pytest.mark.parametrize("make", [function, module])
def test_without_a_name_a_fingerprint_says_so(make):
  assert fingerprint(make()).startswith(UNNAMED)
  assert fingerprint(function(lambda x: x, None)).startswith(UNNAMED)


def test_another_function_over_a_named_one_has_no_name():
  classifier = function(name="a")
  defended = Classifier(classifier.variables, lambda v, x, key: classifier.apply(v, jnp.round(x), key), 3)
  assert (classifier.called, defended.called) == ("a@", "") and fingerprint(defended).startswith(UNNAMED)


def test_modules_of_this_package_need_no_name_and_a_name_changes_nothing():
  net = make_model("cnn-tiny", 3)
  assert fingerprint(module(net)) == fingerprint(module(net, name="mine", version="3"))
  assert not fingerprint(module(net)).startswith(UNNAMED)
  half = fingerprint(module(net, dtype=jnp.bfloat16))
  assert half != fingerprint(module(net)) and not half.startswith(UNNAMED), "computes something else, and is known"
  assert is_ours(net) and not is_ours(Foreign(net)) and not is_ours(None)


def test_names_share_compiled_programs():
  traced = []

  def net(x):
    traced.append(x.shape)
    return x.mean((1, 2))

  call = jax.jit(lambda classifier, x: classifier(x))
  for name in ("a", "b"):
    call(function(net, None, name=name), jnp.ones((2, 4, 4, 3)))
  assert len(traced) == 1


def test_the_fixture_of_the_checks_has_a_name():
  assert not fingerprint(testing.fixture()).startswith(UNNAMED)
  assert fingerprint(testing.fixture()) == fingerprint(testing.fixture()) != fingerprint(testing.fixture("flat"))


@pytest.mark.parametrize("named", [{"version": "1"}, {"name": "a", "version": 1}, {"name": 3}])
def test_odd_names_are_refused(named):
  with pytest.raises(InputError, match="name"):
    function(**named)


def test_every_network_of_ares_bench_is_one_of_ours():
  from jaxrobust.models.ares_bench_zoo import ARES_BENCH_NETWORKS

  assert len(ARES_BENCH_NETWORKS) == 55
  assert not [name for name, network in ARES_BENCH_NETWORKS.items() if network.arch not in MODELS]
  assert ARES_BENCH_NETWORKS["resnet152_at"].arch == "resnet152_gelu", "its tensors have the names of a ReLU network's"
  assert "--std=0.5,0.5,0.5" in ARES_BENCH_NETWORKS["vitb_21k"].convert_command
