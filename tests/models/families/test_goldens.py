"""Every network against the PyTorch network it equals: names, shapes, parameter count and logits.

The golden files are made by tests/golden/make_model_goldens.py. The smallest network of each family is compared by
default, or in CI; names, shapes and counts of all of them in CI, their logits with JAXROBUST_SLOW=1.
"""

import json
import pathlib

import flax
import jax
import numpy as np
import pytest

from jaxrobust.models.registry import MODELS, abstract_model, count_params, make_model
from jaxrobust.models.weights.torch_weights import from_torch, torch_name, torch_shape
from tests import realdata
from tests.golden import deterministic

FOLDER = pathlib.Path(__file__).parents[2] / "golden" / "models"
GOLDENS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def smallest_or(mark, long=()):
  """All networks, those that are not the smallest of their family marked, and for CI those that take long."""
  marks = {name: [pytest.mark.ci] if name in long else [] for name in GOLDENS}
  return [pytest.param(name, marks=marks[name] if GOLDENS[name]["smallest"] else mark) for name in GOLDENS]


def shapes(name, golden):
  """PyTorch names and shapes of our network."""
  variables = flax.traverse_util.flatten_dict(abstract_model(name, golden["classes"])[1])
  return {torch_name(path): torch_shape(path, leaf.shape) for path, leaf in variables.items()}


@pytest.mark.parametrize("name", smallest_or(pytest.mark.ci))
def test_names_shapes_and_parameter_count_equal_the_reference(name):
  golden = GOLDENS[name]
  logits, variables = abstract_model(name, golden["classes"])
  assert logits.shape == (1, golden["classes"]) and set(variables) <= {"params", "batch_stats"}
  assert count_params(name, golden["classes"]) == golden["params"]
  assert deterministic.names_hash(shapes(name, golden)) == golden["names"]
  assert MODELS[name].reference in ("", golden["source"])
  assert MODELS[name].input_size == (golden["size"], golden["size"], 3)


# Of the smallest, those that take longest; in CI.
LONG = {
  "cifar-resnext29_32x4d", "vitae_tiny", "regnetx_004", "densenet121", "cifar-googlenet", "vgg11_bn", "convnextv2_atto",
  "mobilenetv3_large_035", "swin_tiny_patch4_window7_224", "cifar-efficientnet_b0", "cifar-inception_v3",
  "cifar-xcit_small_12_p4", "t2t_vit_14", "cifar-mobilenetv2",
}  # fmt: skip


@pytest.mark.parametrize("name", smallest_or(pytest.mark.slow, LONG))
def test_logits_equal_the_reference(name):
  golden = GOLDENS[name]
  module, size = make_model(name, golden["classes"]), (golden["size"], golden["size"], 3)
  state = {key: deterministic.draw(key, shape, golden["gain"]) for key, shape in shapes(name, golden).items()}
  variables = from_torch(module, state, size)
  logits = np.asarray(jax.jit(module.apply)(variables, deterministic.images(2, size[0])), np.float64)
  assert abs(logits.std() / golden["std"] - 1) < 1e-3
  found = logits[:, :: golden["step"]]
  assert np.abs(found - np.array(golden["logits"])).max() <= 1e-3 * golden["std"]


@pytest.mark.parametrize("name", [name for name in MODELS if MODELS[name].reference])
def test_a_model_with_a_reference_has_a_golden_file(name):
  assert name in GOLDENS


@realdata.needs_data
@pytest.mark.data
@pytest.mark.ci
def test_parameter_counts_of_every_model_that_timm_has():
  table = json.loads((realdata.ROOT / "reference" / "timm_params.json").read_text())["families"]
  known = {name: row["params"] for family in table.values() for name, row in family.items()}
  references = {name: MODELS[name].reference.removeprefix("timm:") for name in MODELS}
  listed = [name for name in MODELS if references[name] in known]
  assert len(listed) > 40
  for name in listed:
    assert count_params(name, 1000) == known[references[name]], name
