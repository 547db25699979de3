"""Every registered network: shapes, metadata, gradients, precision, and what is random only in training."""

import functools

import flax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.models.families.densenet import DenseNet
from jaxrobust.models.families.efficientnet import EFFICIENTNET, EfficientNet
from jaxrobust.models.families.mobilenetv3 import MobileNetV3
from jaxrobust.models.families.repvgg import RepVGG, fuse
from jaxrobust.models.families.resnet import ResNet
from jaxrobust.models.families.resnet_denoise import Denoise
from jaxrobust.models.families.vgg import VGG
from jaxrobust.models.families.wide_resnet import WideResNet
from jaxrobust.models.registry import MODELS, abstract_model, abstract_variables, count_flops, count_params, make_model
from jaxrobust.models.weights.torch_weights import torch_name, torch_shape
from tests.golden import deterministic
from tests.models.families.test_goldens import GOLDENS


def fill(module, size):
  """Weights of a sane scale."""
  shapes = flax.traverse_util.flatten_dict(abstract_variables(module, (size, size, 3)))

  def draw(path, leaf):
    array = deterministic.draw(torch_name(path), torch_shape(path, leaf.shape))
    if path[-1] != "kernel":
      return array
    return array.transpose(2, 3, 1, 0) if array.ndim == 4 else array.T

  return flax.traverse_util.unflatten_dict({path: draw(path, leaf) for path, leaf in shapes.items()})


@pytest.mark.parametrize("name", [name for name in MODELS if name not in GOLDENS])
def test_every_model_without_a_golden_file_takes_its_own_input_size(name):
  # Tracing a network takes a second: test_goldens.py does it for the others.
  logits, variables = abstract_model(name)
  assert logits.shape == (1, MODELS[name].num_classes) and logits.dtype == jnp.float32
  assert set(variables) <= {"params", "batch_stats"} and count_params(name) > 1000


@pytest.mark.parametrize("name", list(MODELS))
def test_every_model_carries_its_metadata(name):
  spec = MODELS[name]
  assert len(spec.mean) == len(spec.std) == spec.input_size[2] and spec.description
  assert 0 < spec.crop_fraction <= 1 and spec.interpolation in ("bilinear", "bicubic")


# Multiply-adds as the papers, torchvision's and timm's tables give them.
@pytest.mark.parametrize(
  ("name", "flops"), [("resnet18", 1.81e9), ("mobilenetv2_100", 0.30e9), ("vgg16", 15.5e9), ("regnetx_004", 0.4e9)]
)
def test_flops_are_those_of_the_papers(name, flops):
  assert abs(count_flops(name) / flops - 1) < 0.02


# Five convolutions with biases: 2,432 + 25,632 + 51,264 + 65,600 + 650. The papers say 36.5 and 46.2 million.
@pytest.mark.parametrize(
  ("name", "count"), [("convnet5", 145_578), ("wrn-28-10", 36_479_194), ("wrn-34-10", 46_160_474), ("kw-wide", 214_918)]
)
def test_parameter_counts_of_networks_without_a_reference_library(name, count):
  assert count_params(name) == count


# Families cut down to what compiles in a second or two.
SMALL = {
  "resnet": ResNet((1, 1), True, 2, 8, num_classes=5),
  "densenet": DenseNet((1, 1), 8, num_classes=5),
  "efficientnet": EfficientNet(EFFICIENTNET[:2], num_classes=5, drop_rate=0.5, drop_path_rate=0.9),
  "wide": WideResNet(10, 1, num_classes=5, drop_rate=0.5),
  "repvgg": RepVGG((1, 2), (8, 8, 16), num_classes=5),
}


@functools.partial(jax.jit, static_argnums=0)
def logits_and_gradient(module, variables, images):
  total = lambda x: (module.apply(variables, x)[:, 0].sum(), module.apply(variables, x))
  (_, logits), gradient = jax.value_and_grad(total, has_aux=True)(images)
  return logits, gradient


@pytest.mark.parametrize("name", SMALL)
def test_input_gradients_are_finite_and_bfloat16_follows_float32(name):
  module, images = SMALL[name], deterministic.images(2, 32)
  variables = fill(module, 32)
  logits, gradient = logits_and_gradient(module, variables, images)
  assert np.isfinite(gradient).all() and np.abs(gradient).max() > 0
  half = variables | {"params": jax.tree.map(lambda x: jnp.asarray(x, jnp.bfloat16), variables["params"])}
  low, low_gradient = logits_and_gradient(module, half, jnp.asarray(images, jnp.bfloat16))
  assert low.dtype == low_gradient.dtype == jnp.bfloat16 and np.isfinite(np.asarray(low_gradient, np.float32)).all()
  assert np.abs(np.asarray(low, np.float32) - logits).max() < 0.1 * np.abs(logits).max()


SMALLEST = """
  resnet18 resnext50_32x4d densenet121 efficientnet_lite0 mobilenetv2_050 mobilenetv3_large_035 regnetx_004 repvgg_a0
  shufflenet_v2_x0_5 vgg11_bn alexnet googlenet inception_v3 cifar-resnet18 cifar-vgg11_bn cifar-dla cifar-senet18
  cifar-mobilenetv2 cifar-efficientnet_b0 cifar-resnext29_32x4d preactresnet18 cifar-densenet121 cifar-googlenet
  cifar-inception_v3 wrn-28-4 dm-wrn-28-4 convnet5 resnet2b resnet4b kw-base
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLEST.split())
def test_the_smallest_of_each_family_has_a_finite_input_gradient(name):
  size = MODELS[name].input_size[0]
  module = make_model(name)
  logits, gradient = logits_and_gradient(module, fill(module, size), deterministic.images(2, size))
  assert np.isfinite(logits).all() and np.isfinite(gradient).all() and np.abs(gradient).max() > 0


@pytest.mark.parametrize("name", ["efficientnet", "wide"])
def test_random_layers_are_off_in_evaluation_and_reproducible_in_training(name):
  module, images = SMALL[name], deterministic.images(4, 32)
  variables = fill(module, 32)

  @functools.partial(jax.jit, static_argnums=1)
  def run(key, train):
    return module.apply(variables, images, train=train, rngs={"dropout": key}, mutable=["batch_stats"])[0]

  first, second = jax.random.key(1), jax.random.key(2)
  np.testing.assert_array_equal(run(first, False), run(second, False))
  np.testing.assert_array_equal(run(first, True), run(first, True))
  assert np.abs(run(first, True) - run(second, True)).max() > 1e-3


def test_training_updates_batch_statistics_and_evaluation_does_not():
  module, images = SMALL["resnet"], deterministic.images(4, 32)
  variables = fill(module, 32)
  for train in (True, False):
    _, updates = module.apply(variables, images, train=train, mutable=["batch_stats"])
    same = jax.tree.map(np.array_equal, updates["batch_stats"], variables["batch_stats"])
    assert all(jax.tree.leaves(same)) is not train


def test_fused_repvgg_computes_what_its_train_form_computes():
  module, images = SMALL["repvgg"], deterministic.images(2, 32)
  variables = fill(module, 32)
  fused, single = fuse(variables), RepVGG(module.depths, module.widths, fused=True, num_classes=5)
  wanted = abstract_variables(single, (32, 32, 3))
  assert jax.tree.structure(wanted) == jax.tree.structure(fused)
  assert jax.tree.map(np.shape, fused) == jax.tree.map(np.shape, wanted)
  found, train_form = single.apply(fused, images), module.apply(variables, images)
  np.testing.assert_allclose(found, train_form, rtol=1e-4, atol=1e-4 * float(np.std(train_form)))


def test_a_denoising_block_is_an_average_over_similar_positions():
  x = np.random.default_rng(0).normal(size=(1, 3, 2, 4)).astype(np.float32)
  module = Denoise()
  variables = module.init(jax.random.key(0), x)
  np.testing.assert_array_equal(module.apply(variables, x), x)  # Its batch norm starts at zero.
  params = variables["params"]
  for name in ("embedding_theta", "embedding_phi"):
    params[name] = jax.tree.map(jnp.zeros_like, params[name])
  params["conv"]["kernel"] = jnp.eye(4)[None, None]
  params["bn"]["scale"] = jnp.full(4, np.sqrt(1 + 1e-5))
  np.testing.assert_allclose(module.apply(variables, x), x + x.mean((1, 2), keepdims=True), rtol=1e-4, atol=1e-5)


def test_random_self_ensemble_is_noisy_in_evaluation_and_only_by_its_key():
  module, images = VGG((1, 0, 0, 0, 0), True, True, 3, noise=(0.2, 0.1)), deterministic.images(2, 32)
  variables = fill(module, 32)
  run = lambda seed: module.apply(variables, images, rngs={"noise": jax.random.key(seed)})
  np.testing.assert_array_equal(run(0), run(0))
  assert np.abs(run(0) - run(1)).max() > 1e-3


def test_options_reach_the_module():
  assert make_model("mobilenetv3_large_050", 7, drop_rate=0.1) == MobileNetV3(0.5, 7, 0.1)
  assert make_model("resnet50").num_classes == 1000 and make_model("wrn-28-10").num_classes == 10
