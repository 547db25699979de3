"""The transformers and modern networks: real runs, gradients, precision and randomness of the smallest of each family.

Their logits, names and parameter counts are compared in test_goldens.py.
"""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.models.families import swin
from jaxrobust.models.families.convmixer import ConvMixer
from jaxrobust.models.families.convnext import ConvNeXt
from jaxrobust.models.families.mixer import Mixer
from jaxrobust.models.families.swin import Swin
from jaxrobust.models.families.t2t_vit import T2TViT
from jaxrobust.models.families.vit import ViT
from jaxrobust.models.families.vitae import ViTAE
from jaxrobust.models.families.xcit import XCiT
from jaxrobust.models.layers import attention, patches
from jaxrobust.models.registry import MODELS, abstract_variables, count_params, make_model
from jaxrobust.models.weights.torch_names import match_names

# Every family, narrow and shallow: the layers are those of the real sizes.
SMALL = {
  "vit": ViT(4, 16, 2, 2, 5),
  "vit-conv-stem": ViT(16, 16, 1, 2, 5, conv_stem=True, layer_scale=0.1, embed_class=False),
  "mixer": Mixer(8, 16, 2, 5),
  "swin": Swin(8, (1, 2), (1, 2), 5, window=2),
  "convnext": ConvNeXt((1, 1), (8, 16), 5),
  "convnext-conv-stem": ConvNeXt((1, 1), (8, 16), 5, stem_widths=(4, 8)),
  "xcit": XCiT(16, 1, 2, 5),
  "t2t-vit": T2TViT(16, 1, 2, True, 5),
  "t2t-vit-t": T2TViT(16, 1, 2, False, 5),
  "vitae": ViTAE((4, 4, 8), (4, 4), 1, 2, 2.0, 4, 5),
  "convmixer": ConvMixer(8, 2, 3, 4, num_classes=5),
}
RANDOM = [name for name in SMALL if name != "convmixer"]
PAPER_MILLIONS = {"t2t_vit_14": 21.5, "t2t_vit_19": 39.2, "t2t_vit_24": 64.1, "t2t_vit_t_14": 21.5}
FAMILIES = "(cifar-)?(vit|deit|mixer|swin|convnext|xcit|t2t_vit|vitae|convmixer)_"
NAMES = [name for name in MODELS if re.match(FAMILIES, name)]


IMAGES = np.random.default_rng(0).normal(size=(2, 32, 32, 3)).astype(np.float32)


@functools.cache
def variables_of(name):
  """Fresh variables; branches with fresh layer scales would add so little that nothing could be seen of them."""
  variables = jax.device_get(jax.jit(SMALL[name].init)(jax.random.key(0), IMAGES))
  return jax.tree.map(lambda leaf: np.where(np.abs(leaf) < 1e-4, np.float32(0.1), leaf), variables)


@functools.cache
def logits_of(name):
  return np.asarray(jax.jit(SMALL[name].apply)(variables_of(name), IMAGES))


# The slowest to compile; their logits are compared in the default run all the same.
LONG = ("vitae", "xcit", "t2t-vit-t", "convnext-conv-stem", "swin")


def by_length(name):
  """A network every day, in CI if it takes longer, or with the slow ones."""
  marks = (
    pytest.mark.slow if name in LONG else pytest.mark.ci if name in ("t2t-vit", "vit-conv-stem", "convnext") else ()
  )
  return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [by_length(n) for n in SMALL])
def test_forward_and_input_gradient_are_finite_and_examples_do_not_mix(name):
  @jax.jit
  def gradient_of(variables, x):
    return jax.grad(lambda x: jnp.sum(SMALL[name].apply(variables, x)[0] ** 2))(x)

  logits, gradient = logits_of(name), np.asarray(gradient_of(variables_of(name), IMAGES))
  assert logits.shape == (2, 5) and np.isfinite(logits).all() and np.isfinite(gradient).all()
  assert np.abs(gradient[0]).max() > 0
  np.testing.assert_array_equal(gradient[1], 0)


@pytest.mark.parametrize(
  "name", [pytest.param(n, marks=pytest.mark.ci) if n in (*LONG, "t2t-vit") else n for n in SMALL]
)
def test_bfloat16_stays_near_float32(name):
  narrow = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), (variables_of(name), IMAGES))
  expected, found = logits_of(name), jax.jit(SMALL[name].apply)(*narrow)
  assert found.dtype == jnp.bfloat16
  assert np.abs(np.asarray(found, np.float32) - expected).max() < 0.05 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("name", [by_length(n) for n in RANDOM])
def test_random_layers_are_off_in_evaluation_and_reproducible_in_training(name):
  module = SMALL[name].clone(drop_rate=0.5, drop_path_rate=0.5)

  @jax.jit
  def train(variables, seed):
    rngs = {"dropout": jax.random.key(seed)}
    return module.apply(variables, IMAGES, train=True, rngs=rngs, mutable=["batch_stats"])[0]

  evaluated = jax.jit(module.apply)(variables_of(name), IMAGES)
  np.testing.assert_array_equal(evaluated, logits_of(name))
  first, again, other = (np.asarray(train(variables_of(name), seed)) for seed in (1, 1, 2))
  np.testing.assert_array_equal(first, again)
  assert np.abs(first - other).max() > 1e-6


@pytest.mark.parametrize("name", ["t2t-vit", pytest.param("vitae", marks=pytest.mark.ci)])
def test_fixed_values_are_not_trained(name):
  variables = variables_of(name)
  fixed = {path[-1].key for path, _ in jax.tree_util.tree_leaves_with_path(variables["batch_stats"])}
  trained = {path[-1].key for path, _ in jax.tree_util.tree_leaves_with_path(variables["params"])}
  assert "w" in fixed and "w" not in trained
  assert name == "vitae" or ("pos_embed" in fixed and "pos_embed" not in trained)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_every_size_evaluates_abstractly_with_its_gradient(name):
  module, size = make_model(name), MODELS[name].input_size
  variables = abstract_variables(module, size)
  image = jax.ShapeDtypeStruct((1, *size), jnp.float32)
  assert jax.eval_shape(module.apply, variables, image).shape == (1, MODELS[name].num_classes)
  gradient = jax.eval_shape(jax.grad(lambda x, v: jnp.sum(module.apply(v, x))), image, variables)
  assert gradient.shape == image.shape


@pytest.mark.parametrize("name", PAPER_MILLIONS)
def test_parameter_counts_of_t2t_vit_equal_the_papers(name):
  stored = jax.tree.leaves(abstract_variables(make_model(name), MODELS[name].input_size))
  # The papers count the fixed position table and random features, too.
  assert round(sum(int(np.prod(leaf.shape)) for leaf in stored) / 1e6, 1) == PAPER_MILLIONS[name]


def test_parameter_counts_of_vitae_equal_the_official_networks():
  # The paper's table says 4.8 and 23.6 million; the second is not what the released network has.
  assert count_params("vitae_tiny") == 4_882_792 and count_params("vitae_small") == 24_009_096


SPELLED = {
  "swin": {
    "layers.0.downsample.norm.weight": "layers.1.downsample.norm.weight",
    "layers.0.blocks.1.attn.relative_position_bias_table": "layers.0.blocks.1.attn.relative_position_bias_table",
    "head.weight": "head.fc.weight",
  },
  "convnext": {
    "downsample_layers.0.1.bias": "stem.1.bias",
    "downsample_layers.2.1.weight": "stages.2.downsample.1.weight",
    "stages.1.0.dwconv.weight": "stages.1.blocks.0.conv_dw.weight",
    "stages.1.0.norm.weight": "stages.1.blocks.0.norm.weight",
    "stages.1.0.pwconv2.bias": "stages.1.blocks.0.mlp.fc2.bias",
    "stages.1.0.gamma": "stages.1.blocks.0.gamma",
    "norm.weight": "head.norm.weight",
    "head.bias": "head.fc.bias",
  },
  "convmixer": {
    "0.weight": "stem.0.weight",
    "2.running_var": "stem.2.running_var",
    "3.0.fn.2.bias": "blocks.0.0.fn.2.bias",
    "10.3.weight": "blocks.7.3.weight",
    "13.weight": "head.weight",
  },
  "torchvision's mobilenetv2": {
    "features.0.0.weight": "conv_stem.weight",
    "features.1.conv.0.0.weight": "blocks.0.0.conv_dw.weight",
    "features.1.conv.0.1.bias": "blocks.0.0.bn1.bias",
    "features.1.conv.1.weight": "blocks.0.0.conv_pw.weight",
    "features.1.conv.2.running_var": "blocks.0.0.bn2.running_var",
    "features.2.conv.0.0.weight": "blocks.1.0.conv_pw.weight",
    "features.2.conv.1.0.weight": "blocks.1.0.conv_dw.weight",
    "features.2.conv.1.1.weight": "blocks.1.0.bn2.weight",
    "features.2.conv.2.weight": "blocks.1.0.conv_pwl.weight",
    "features.2.conv.3.weight": "blocks.1.0.bn3.weight",
    "features.18.1.running_mean": "bn2.running_mean",
    "classifier.1.bias": "classifier.bias",
  },
  "torchvision's efficientnet": {
    "features.1.0.block.0.0.weight": "blocks.0.0.conv_dw.weight",
    "features.1.0.block.1.fc1.weight": "blocks.0.0.se.conv_reduce.weight",
    "features.1.0.block.2.0.weight": "blocks.0.0.conv_pw.weight",
    "features.1.0.block.2.1.bias": "blocks.0.0.bn2.bias",
    "features.2.1.block.0.0.weight": "blocks.1.1.conv_pw.weight",
    "features.2.1.block.1.0.weight": "blocks.1.1.conv_dw.weight",
    "features.2.1.block.2.fc2.bias": "blocks.1.1.se.conv_expand.bias",
    "features.2.1.block.3.0.weight": "blocks.1.1.conv_pwl.weight",
    "features.2.1.block.3.1.running_var": "blocks.1.1.bn3.running_var",
    "features.8.0.weight": "conv_head.weight",
  },
  "torchvision's regnet": {
    "stem.1.running_mean": "stem.bn.running_mean",
    "trunk_output.block2.block2-0.proj.0.weight": "s2.b1.downsample.conv.weight",
    "trunk_output.block2.block2-3.f.a.0.weight": "s2.b4.conv1.conv.weight",
    "trunk_output.block4.block4-11.f.c.1.bias": "s4.b12.conv3.bn.bias",
    "fc.weight": "head.fc.weight",
  },
}


@pytest.mark.parametrize("family", SPELLED)
@pytest.mark.parametrize("prefix", ["", "module."])
def test_the_authors_own_names_are_understood(family, prefix):
  state = {prefix + theirs: np.ones(2) for theirs in SPELLED[family]}
  match = match_names(SPELLED[family].values(), state)
  assert match.found == {ours: prefix + theirs for theirs, ours in SPELLED[family].items()}
  assert not match.unused


def test_softmax_is_float32_for_bfloat16_tokens():
  tokens = jax.ShapeDtypeStruct((1, 2, 4, 8), jnp.bfloat16)
  jaxpr = str(jax.make_jaxpr(lambda q, k, v: attention.attend(q, k, v, 1.0))(tokens, tokens, tokens))
  assert "f32[2,4,4] = exp" in jaxpr


def test_patches_and_unfold_equal_convolutions():
  images = jax.random.normal(jax.random.key(0), (2, 9, 8, 3))
  kernel = jax.random.normal(jax.random.key(1), (3, 3, 3, 5))
  dimensions = ("NHWC", "HWIO", "NHWC")
  strided = jax.lax.conv_general_dilated(images, kernel, (3, 3), "VALID", dimension_numbers=dimensions)
  np.testing.assert_allclose(patches.patchify(images, 3) @ kernel.reshape(-1, 5), strided, atol=1e-5)
  padded = jax.lax.conv_general_dilated(images, kernel, (2, 2), ((1, 1), (1, 1)), dimension_numbers=dimensions)
  matrix = kernel.transpose(2, 0, 1, 3).reshape(-1, 5)
  np.testing.assert_allclose(patches.unfold(images, 3, 2, 1) @ matrix, padded, atol=1e-5)


def test_swin_refuses_maps_that_do_not_divide_into_windows():
  with pytest.raises(ValueError, match="does not divide into windows of 7×7"):
    jax.eval_shape(make_model("swin_tiny_patch4_window7_224").init, jax.random.key(0), jnp.zeros((1, 256, 256, 3)))


@pytest.mark.ci
def test_shifted_windows_attend_only_to_true_neighbors():
  # One block on a 4×4 map with windows of 2, shifted: the token at (0, 0) sees no token of the far side.
  block = swin.SwinBlock(1, 2, True)
  tokens = jax.random.normal(jax.random.key(0), (1, 4, 4, 4))
  variables = block.init(jax.random.key(1), tokens)
  reach = jax.grad(lambda x: jnp.sum(block.apply(variables, x)[0, 0, 0] ** 2))(tokens)
  np.testing.assert_allclose(np.abs(reach[0, 1:]).max(), 0, atol=1e-12)
