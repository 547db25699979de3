"""A classifier is a callable pytree: weights travel as an argument, normalization lives inside."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from flax import nnx

import jaxrobust as jr
from jaxrobust.attacks.pgd import FGSM
from jaxrobust.core.classifier import Classifier, check_logits
from jaxrobust.core.compilation import count_compilations
from jaxrobust.core.errors import InputError
from jaxrobust.engine.api import attack_images
from jaxrobust.engine.options import EngineOptions
from jaxrobust.models.families.resnet_cifar import BasicBlock
from jaxrobust.models.zoo import fingerprint

SHAPE = (4, 4, 3)
IMAGES = np.random.default_rng(0).uniform(0.1, 0.9, (5, *SHAPE)).astype(np.float32)


class Linear(nn.Module):
  num_classes: int = 4
  dtype: jnp.dtype = jnp.float32

  @nn.compact
  def __call__(self, x, train=False):
    return nn.Dense(self.num_classes, dtype=self.dtype)(x.reshape(len(x), -1))


class Nameless(nn.Module):
  @nn.compact
  def __call__(self, x, train=False):
    return nn.Dense(3)(x.reshape(len(x), -1))


def linear(seed=0, **options):
  module = Linear()
  return Classifier.from_module(module, module.init(jax.random.key(seed), IMAGES[:1]), **options)


def test_two_networks_of_one_architecture_share_one_compiled_program():
  first, second = linear(0, mean=0.5, std=0.25), linear(1, mean=0.1, std=0.5)
  images = jnp.asarray(IMAGES)

  @jax.jit
  def logits(classifier, x):
    return classifier(x)

  with count_compilations() as once:
    a = logits(first, images).block_until_ready()
  with count_compilations() as again:
    b = logits(second, images).block_until_ready()
  assert once.programs == 1 and again.programs == 0
  assert not np.allclose(a, b)
  np.testing.assert_allclose(b, second(images), rtol=1e-5, atol=1e-6)


def test_another_architecture_gets_a_program_of_its_own():
  @jax.jit
  def logits(classifier, x):
    return classifier(x)

  logits(linear(), IMAGES)
  module = Nameless()
  other = Classifier.from_module(module, module.init(jax.random.key(0), IMAGES[:1]), num_classes=3)
  assert logits(other, IMAGES).shape == (5, 3)


def test_weights_are_leaves_and_everything_else_is_static():
  classifier = linear(input_shape=SHAPE)
  leaves, tree = jax.tree.flatten(classifier)
  assert sorted(leaf.shape for leaf in leaves) == [(), (), (4,), (48, 4)]
  rebuilt = jax.tree.unflatten(tree, leaves)
  assert (rebuilt.num_classes, rebuilt.input_shape, rebuilt.randomized) == (4, SHAPE, False)
  assert hash(tree) == hash(jax.tree.structure(linear(3, input_shape=SHAPE)))


def test_normalization_lives_inside():
  module = Linear()
  variables = module.init(jax.random.key(0), IMAGES[:1])
  mean, std = np.array([0.4, 0.5, 0.6], np.float32), np.array([0.1, 0.2, 0.3], np.float32)
  classifier = Classifier.from_module(module, variables, mean=mean.tolist(), std=std.tolist())
  np.testing.assert_allclose(classifier(IMAGES), module.apply(variables, (IMAGES - mean) / std), rtol=1e-5, atol=1e-5)
  assert not np.allclose(classifier(IMAGES), module.apply(variables, IMAGES))


@pytest.mark.parametrize("std", [0.0, (0.1, 0.0, 0.1), -1.0, float("nan")])
def test_a_std_that_is_not_positive_is_refused(std):
  with pytest.raises(InputError, match="std must be positive"):
    linear(std=std)


def test_a_function_without_variables_is_a_classifier():
  classifier = Classifier.from_function(lambda x: x.mean((1, 2)), num_classes=3)
  np.testing.assert_allclose(classifier(IMAGES), IMAGES.mean((1, 2)), rtol=1e-5)
  assert jax.tree.leaves(classifier) == []


def test_a_function_with_variables_takes_them_first():
  weights = {"w": jnp.arange(9.0).reshape(3, 3)}
  classifier = Classifier.from_function(lambda v, x: x.mean((1, 2)) @ v["w"], num_classes=3, variables=weights)
  np.testing.assert_allclose(classifier(IMAGES), IMAGES.mean((1, 2)) @ np.arange(9.0).reshape(3, 3), rtol=1e-5)
  assert len(jax.tree.leaves(classifier)) == 1


@pytest.mark.parametrize("variables", [None, {"scale": jnp.asarray(2.0)}])
def test_a_randomized_function_takes_the_key_last(variables):
  def plain(x, key):
    return x.mean((1, 2)) + jax.random.normal(key, (3,))

  function = plain if variables is None else lambda v, x, key: v["scale"] * plain(x, key)
  classifier = Classifier.from_function(function, 3, variables=variables, randomized=True)
  one, two = jax.random.split(jax.random.key(0))
  scale = 1.0 if variables is None else 2.0
  np.testing.assert_allclose(classifier(IMAGES, one), scale * plain(IMAGES, one), rtol=1e-5)
  assert not np.allclose(classifier(IMAGES, one), classifier(IMAGES, two))


def test_wrapping_one_function_twice_shares_programs():
  def function(x):
    return x.mean((1, 2))

  first, second = (Classifier.from_function(function, 3) for _ in range(2))
  assert first.apply == second.apply and jax.tree.structure(first) == jax.tree.structure(second)


def test_missing_or_too_few_classes_are_refused():
  module = Nameless()
  variables = module.init(jax.random.key(0), IMAGES[:1])
  with pytest.raises(InputError, match="Nameless has no num_classes attribute; pass num_classes="):
    Classifier.from_module(module, variables)
  assert Classifier.from_module(module, variables, num_classes=3).num_classes == 3
  with pytest.raises(InputError, match="at least 2 classes, got 1"):
    Classifier.from_function(lambda x: x, num_classes=1)


@pytest.mark.parametrize(
  ("classifier", "shape", "reason"),
  [
    (linear(input_shape=SHAPE), (8, 8, 3), r"images are \(8, 8, 3\), the classifier takes \(4, 4, 3\)"),
    (linear(), (8, 8, 3), r"does not take images of shape \(8, 8, 3\): "),
    (Classifier.from_function(lambda x: x.mean((1, 2)), 10), SHAPE, r"returns \(3,\) per image, expected \(10,\)"),
    (Classifier.from_function(lambda x: x.mean((1, 2, 3)), 10), SHAPE, r"returns \(\) per image, expected \(10,\)"),
    (Classifier.from_function(lambda x: x[0], 3), (3, 3, 3), r"expected \(3,\)"),
    (Classifier.from_function(lambda x: 1 / 0, 3), SHAPE, "does not take images .*division by zero"),
  ],
)
def test_a_classifier_that_does_not_fit_is_refused_in_one_line(classifier, shape, reason):
  with count_compilations() as count, pytest.raises(InputError, match=reason) as error:
    check_logits(classifier, shape)
  assert "\n" not in str(error.value) and count.programs == 0


def test_images_with_other_channels_than_the_normalization_are_refused():
  with pytest.raises(InputError, match=r"does not take images of shape \(4, 4, 1\)"):
    check_logits(linear(mean=(0.1, 0.2, 0.3)), (4, 4, 1))


def test_a_classifier_that_fits_passes_without_being_computed():
  with count_compilations() as count:
    check_logits(linear_at_4, SHAPE)
    check_logits(randomized_at_4, SHAPE)
  assert count.programs == 0


linear_at_4 = linear(input_shape=SHAPE)
randomized_at_4 = Classifier.from_function(lambda x, k: x.mean((1, 2)) + jax.random.normal(k), 3, randomized=True)


def test_a_bfloat16_module_gives_float32_logits():
  module = Linear(dtype=jnp.bfloat16)
  variables = module.init(jax.random.key(0), IMAGES[:1])
  assert module.apply(variables, IMAGES).dtype == jnp.bfloat16
  assert Classifier.from_module(module, variables)(IMAGES).dtype == jnp.float32


class Normalized(nn.Module):
  num_classes: int = 4

  @nn.compact
  def __call__(self, x, train=False):
    return nn.Dense(self.num_classes)(BasicBlock(3)(x, train).reshape(len(x), -1))


def test_an_attack_reads_batch_statistics_and_never_writes_them():
  module = Normalized()
  rng = np.random.default_rng(0)
  variables = jax.jit(module.init)(jax.random.key(0), IMAGES[:1])
  moved = jax.tree.map(lambda x: jnp.asarray(rng.uniform(0.5, 1.5, x.shape), jnp.float32), variables["batch_stats"])
  classifier = Classifier.from_module(module, {**variables, "batch_stats": moved})
  before = jax.tree.map(np.array, classifier.variables)
  forward = jax.jit(lambda c, x: c(x))
  labels = np.asarray(forward(classifier, IMAGES)).argmax(1)
  options = EngineOptions.for_platform(2, shrink=False)
  result = attack_images(FGSM(), classifier, IMAGES, labels, eps=0.3, options=options)
  assert result.correct.all() and result.queries.all()
  jax.tree.map(np.testing.assert_array_equal, before, jax.tree.map(np.array, classifier.variables))
  # Evaluation mode: an image's logits depend neither on the others in its batch nor on their statistics.
  mixed = np.concatenate([IMAGES[:2], np.zeros_like(IMAGES[2:])])
  np.testing.assert_allclose(forward(classifier, mixed)[:2], forward(classifier, IMAGES)[:2], rtol=1e-5, atol=1e-6)


class WithFeatures(nn.Module):
  """A network that offers what its head sees."""

  num_classes: int = 3

  def setup(self):
    self.body, self.head = nn.Dense(4), nn.Dense(self.num_classes)

  def features(self, x):
    return nn.relu(self.body(x.mean((1, 2))))

  def __call__(self, x):
    return self.head(self.features(x))


def test_a_classifier_offers_the_features_that_its_module_does():
  module, images = WithFeatures(), jnp.full((2, 4, 4, 3), 0.5)
  variables = module.init(jax.random.key(0), images)
  classifier = Classifier.from_module(module, variables, mean=0.2, std=0.5)
  expected = module.apply(variables, (images - 0.2) / 0.5, method="features")
  np.testing.assert_array_equal(classifier.features(images), expected)
  head = variables["params"]["head"]
  np.testing.assert_allclose(classifier(images), expected @ head["kernel"] + head["bias"], rtol=1e-5)


def test_a_function_offers_the_features_that_it_is_given_with():
  images = jnp.full((2, 4, 4, 3), 0.5)
  plain = Classifier.from_function(lambda x: x.mean((1, 2)), 3, features=lambda x: x.mean(3))
  assert plain.features(images).shape == (2, 4, 4)
  held = Classifier.from_function(lambda v, x: x.mean((1, 2)), 3, variables=2.0, features=lambda v, x: v * x)
  np.testing.assert_array_equal(held.features(images), 2 * images)


@pytest.mark.parametrize("kind", ["function", "module"])
def test_a_classifier_without_features_says_so_in_one_line(kind):
  images = jnp.full((2, 4, 4, 3), 0.5)
  if kind == "module":
    module = nn.Dense(3)  # Its field `features` is a number.
    classifier = Classifier.from_module(module, module.init(jax.random.key(0), images), num_classes=3)
  else:
    classifier = Classifier.from_function(lambda x: x.mean((1, 2)), 3)
  with pytest.raises(InputError, match="offers no features") as error:
    classifier.features(images)
  assert "\n" not in str(error.value)


class Mode(nn.Module):
  """Says whether it was told to train."""

  usual: bool = True

  @nn.compact
  def __call__(self, x, training, deterministic=False, temperature=1.0):
    assert not training and deterministic and temperature == 1.0
    return nn.BatchNorm(use_running_average=not training)(nn.Dense(4)(x.mean((1, 2))))


def test_linen_modules_are_told_that_they_are_evaluated_and_count_their_classes():
  module, x = Mode(), jnp.ones((2, 8, 8, 3))
  variables = module.init(jax.random.key(0), x, training=False, deterministic=True)
  classifier = Classifier.from_module(module, variables, input_shape=(8, 8, 3))
  assert classifier.num_classes == 4 and classifier(x).shape == (2, 4) and classifier.module is module


class Own(nnx.Module):
  def __init__(self, rngs):
    self.dense, self.norm = nnx.Linear(3, 5, rngs=rngs), nnx.BatchNorm(5, rngs=rngs)
    self.dropout = nnx.Dropout(0.5, rngs=rngs)

  def __call__(self, x):
    return self.dropout(self.norm(self.dense(x.mean((1, 2)))))


def test_nnx_modules_bring_their_variables_and_stay_as_they_were():
  module, x = Own(nnx.Rngs(0)), jax.random.uniform(jax.random.key(1), (4, 8, 8, 3))
  classifier = Classifier.from_module(module, mean=0.5, std=0.25, input_shape=(8, 8, 3), name="own")
  logits = jax.jit(lambda c, images: c(images))(classifier, x)
  assert classifier.num_classes == 5 and not module.dropout.deterministic
  np.testing.assert_array_equal(module.norm.mean[...], np.zeros(5))
  module.eval()
  np.testing.assert_allclose(logits, module((x - 0.5) / 0.25), atol=1e-6)
  again = Classifier.from_module(Own(nnx.Rngs(0)), mean=0.5, std=0.25, input_shape=(8, 8, 3), name="own")
  assert again.apply == classifier.apply and fingerprint(again) == fingerprint(classifier)


class Odd(nn.Module):
  def __call__(self, x, temperature):
    return x / temperature


@pytest.mark.parametrize(
  ("arguments", "reason"),
  [
    ((Odd(), {}), r"Odd takes 'temperature' with its images; say what it is: Classifier.from_function\(lambda v, x"),
    ((Mode(),), "Mode comes without variables"),
    ((object(), {}), r"object is no flax module: write Classifier.from_function\(lambda x: jax.vmap"),
    ((Own(nnx.Rngs(0)), {}), "Own is an nnx module, which has its variables inside; leave them out"),
  ],
)
def test_what_is_no_classifier_yet_is_refused_with_the_line_to_write(arguments, reason):
  with pytest.raises(InputError, match=reason):
    Classifier.from_module(*arguments, num_classes=3)


def test_networks_of_pytorch_are_refused_with_the_way_to_convert_them():
  """They have a method `apply` and can be called, so that they would pass for either kind."""
  kind = type("Net", (), {"__module__": "torch.nn.modules.module", "apply": print, "__call__": print})
  images, labels = np.zeros((1, 4, 4, 3), np.float32), np.zeros(1, int)
  for use in (
    lambda net: Classifier.from_module(net, {}, num_classes=3),
    lambda net: Classifier.from_function(net, 3),
    lambda net: jr.attack_images(jr.make_attack("fgsm"), net, images, labels, eps="8/255"),
    lambda net: jr.evaluate(net, (images, labels)),
  ):
    with pytest.raises(InputError, match=r"Net is a network of PyTorch, .* jaxrobust convert net.pth --arch NAME"):
      use(kind())
