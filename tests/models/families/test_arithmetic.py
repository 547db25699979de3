"""One network of every family: bfloat16 is its own arithmetic, and forward-mode derivatives go through it.

Nothing is computed: both are read off the traced program.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax.extend import core

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.classifier_forms import in_dtype
from jaxrobust.models import registry
from jaxrobust.models.registry import MODELS, abstract_variables, make_model

# The smallest of each file in `models/families`.
FAMILIES = {
  "cifar_small": "cifar-mobilenetv2",
  "cnn": "cnn-tiny",
  "convmixer": "cifar-convmixer_256_8",
  "convnext": "convnext_tiny",
  "densenet": "cifar-densenet121",
  "dla": "cifar-dla",
  "efficientnet": "efficientnet_lite0",
  "ensembles": "ensemble",
  "googlenet": "cifar-googlenet",
  "inception": "cifar-inception_v3",
  "mixer": "mixer_b16_224",
  "mobilenetv3": "mobilenetv3_large_035",
  "nas_bench_201": "nb201-0",
  "regnet": "regnetx_004",
  "repvgg": "repvgg_tiny",
  "resnet": "resnet18",
  "resnet_cifar": "resnet20",
  "resnet_denoise": "resnet152-denoise",
  "shufflenet": "shufflenet_v2_x0_5",
  "swin": "swin_tiny_patch4_window7_224",
  "t2t_vit": "t2t_vit_14",
  "vgg": "cifar-vgg11_bn",
  "vit": "deit_tiny_patch16_224",
  "vitae": "vitae_tiny",
  "wide_resnet": "wrn-28-4",
  "xcit": "cifar-xcit_small_12_p4",
}
# The exponentials of a linear attention are sums of squares, which bfloat16 would not hold: float32 on purpose.
LINEAR_ATTENTION = ("t2t_vit", "vitae")
PRODUCTS = ("conv2d", "conv_general_dilated", "dot_general")
# Traced in a second; the others are left to CI.
QUICK = ("cnn", "repvgg", "resnet_cifar")


def products(jaxpr):
  """Yields the types of all operands of products, those of programs inside included."""
  for equation in jaxpr.eqns:
    if equation.primitive.name in PRODUCTS:
      yield equation.primitive.name, tuple(variable.aval.dtype.name for variable in equation.invars[:2])
    for inner in core.jaxprs_in_params(equation.params):
      yield from products(inner)


def test_every_family_is_here():
  assert set(FAMILIES) == set(registry._MODULES) and all(name in MODELS for name in FAMILIES.values())


@pytest.mark.parametrize(
  "name",
  [pytest.param(name, id=family, marks=() if family in QUICK else pytest.mark.ci) for family, name in FAMILIES.items()],
)
def test_bfloat16_is_the_networks_own_arithmetic_and_tangents_pass(name):
  spec, module = MODELS[name], make_model(name)
  make = lambda weights: Classifier.from_module(module, weights, mean=spec.mean, std=spec.std)
  weights = abstract_variables(module, spec.input_size)
  images = jax.ShapeDtypeStruct((2, *spec.input_size), jnp.float32)

  def tangent(weights, images):
    half = in_dtype(make(weights), "bfloat16")
    key = jax.random.key(0) if half.randomized else None
    return jax.jvp(lambda x: half(x, key), (images,), (images,))

  traced = jax.make_jaxpr(tangent)(weights, images)
  logits, moved = traced.out_avals
  assert logits.shape == moved.shape == (2, spec.num_classes) and logits.dtype == moved.dtype == jnp.float32
  found = list(products(traced.jaxpr))
  assert len(found) >= 2
  wrong = [operands for _, operands in found if set(operands) != {"bfloat16"}]
  if name.startswith(LINEAR_ATTENTION):
    wrong = wrong[len(found) // 4 :]
  assert not wrong, f"{len(wrong)} of {len(found)} products are not in bfloat16: {sorted(set(wrong))}"
