"""PyTorch weights by name: nothing missing, nothing unused, and the published accuracies."""

import jax
import numpy as np
import pytest
from flax import linen as nn

from jaxrobust.core.errors import InputError
from jaxrobust.models.families.resnet_cifar import BasicBlock
from jaxrobust.models.layers.conv import Conv
from jaxrobust.models.weights.torch_weights import from_torch, torch_name
from tests import realdata


class Net(nn.Module):
  num_classes: int = 3

  @nn.compact
  def __call__(self, x, train=False):
    x = Conv(2, 3, padding=1, name="conv1")(x)
    x = BasicBlock(2, name="layer1_0")(x, train)
    return nn.Dense(self.num_classes, name="linear")(x.mean((1, 2)))


SHAPE = (4, 4, 3)


def state(**changes):
  rng = np.random.default_rng(0)
  shapes = {"conv1.weight": (2, 3, 3, 3), "conv1.bias": (2,), "linear.weight": (3, 2), "linear.bias": (3,)}
  for layer in ("1", "2"):
    shapes[f"layer1.0.conv{layer}.weight"] = (2, 2, 3, 3)
    for leaf in ("weight", "bias", "running_mean", "running_var"):
      shapes[f"layer1.0.bn{layer}.{leaf}"] = (2,)
  arrays = {name: rng.uniform(0.5, 1.5, shape).astype(np.float32) for name, shape in shapes.items()}
  return {name: array for name, array in (arrays | changes).items() if array is not None}


def test_names_and_layouts_follow_pytorch():
  weights = state()
  variables = from_torch(Net(), weights, SHAPE)
  params, stats = variables["params"], variables["batch_stats"]
  np.testing.assert_array_equal(params["conv1"]["kernel"], weights["conv1.weight"].transpose(2, 3, 1, 0))
  np.testing.assert_array_equal(params["linear"]["kernel"], weights["linear.weight"].T)
  np.testing.assert_array_equal(params["layer1_0"]["bn2"]["scale"], weights["layer1.0.bn2.weight"])
  np.testing.assert_array_equal(stats["layer1_0"]["bn1"]["var"], weights["layer1.0.bn1.running_var"])
  wanted = jax.eval_shape(lambda: Net().init(jax.random.key(0), np.zeros((1, *SHAPE), np.float32)))
  assert jax.tree.structure(wanted) == jax.tree.structure(variables)


@pytest.mark.parametrize(
  ("path", "name"),
  [
    (("params", "conv1", "kernel"), "conv1.weight"),
    (("params", "layer2_10", "bn1", "bias"), "layer2.10.bn1.bias"),
    (("batch_stats", "layer1_0", "bn1", "mean"), "layer1.0.bn1.running_mean"),
  ],
)
def test_torch_names(path, name):
  assert torch_name(path) == name


@pytest.mark.parametrize(
  ("changes", "reasons"),
  [
    ({"conv1.bias": None}, ["missing conv1.bias"]),
    ({"fc.weight": np.zeros(2)}, ["unused fc.weight"]),
    ({"linear.weight": np.zeros((10, 2))}, ["linear.weight has shape (10, 2), expected (3, 2)"]),
    ({"linear.bias": None, "head.bias": np.zeros(3)}, ["missing linear.bias", "unused head.bias"]),
    (dict.fromkeys(state()), ["missing", "and 8 more"]),
  ],
)
def test_weights_that_do_not_fit_are_listed_in_one_line(changes, reasons):
  with pytest.raises(InputError, match="these weights do not fit Net: ") as error:
    from_torch(Net(), state(**changes), SHAPE)
  assert all(reason in str(error.value) for reason in reasons) and "\n" not in str(error.value)


def test_batch_counters_are_ignored_and_prefixes_can_be_renamed():
  weights = state(**{"layer1.0.bn1.num_batches_tracked": np.zeros(())})
  from_torch(Net(), weights, SHAPE)
  moved = {name.replace("conv1.", "0.") if name.startswith("conv1") else name: a for name, a in weights.items()}
  with pytest.raises(InputError, match=r"missing conv1\.\w+"):
    from_torch(Net(), moved, SHAPE)
  variables = from_torch(Net(), moved, SHAPE, rename={"conv1": "0"})
  np.testing.assert_array_equal(variables["params"]["conv1"]["bias"], weights["conv1.bias"])


@jax.jit
def correct(classifier, images, labels):
  return (classifier(images).argmax(-1) == labels).sum()


@realdata.needs_data
@pytest.mark.data
@pytest.mark.parametrize(
  ("name", "accuracy"),
  [pytest.param("resnet20", 0.9173, marks=pytest.mark.slow), ("cnn_a_adv", 0.6565), ("cnn_a_adv4", 0.5652)],
)
def test_published_networks_reach_their_accuracy_on_all_of_cifar10(name, accuracy):
  images, labels = realdata.cifar10_test()
  classifier = realdata.cifar10_network(name)
  hits = sum(int(correct(classifier, images[i : i + 500], labels[i : i + 500])) for i in range(0, len(labels), 500))
  assert hits / len(labels) == accuracy
