"""One program for all cells: logits, gradients and training of the native networks, and what must not be batched."""

import functools
import re

import flax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.core.errors import InputError
from jaxrobust.core.nas_cells import operations_of
from jaxrobust.models.weights.torch_weights import torch_name
from jaxrobust.nas.one_program import OneProgram

PROGRAM = OneProgram(width=4, depth=1, num_classes=5)
# All operations, a zero node before convolutions, a cell without anything, the best cell, one of cheap operations.
CELLS = [(2, 3, 4, 0, 1, 3), (0, 0, 3, 1, 2, 2), (0, 0, 0, 0, 0, 0), operations_of(13714), operations_of(0)]
IMAGES = jax.random.normal(jax.random.key(1), (6, 16, 16, 3))
LABELS = jnp.arange(6) % 5


def _first(cells):
  """The first cell every day, the others in CI: each compiles a native network of its own."""
  return [cells[0], *(pytest.param(cell, marks=pytest.mark.ci) for cell in cells[1:])]


@functools.cache
def variables(cell):
  """Native variables away from their starting values."""
  leaves, tree = jax.tree.flatten(jax.jit(PROGRAM.native(cell).init)(jax.random.key(0), IMAGES[:1]))
  draw = np.random.default_rng(0).normal
  return jax.tree.unflatten(tree, [jnp.asarray(leaf * np.exp(0.3 * draw(size=leaf.shape))) for leaf in leaves])


def cross_entropy(logits):
  return -jnp.take_along_axis(jax.nn.log_softmax(logits), LABELS[:, None], 1).mean()


logits = jax.jit(PROGRAM.logits)


@jax.jit
def input_gradient(operations, weights, images):
  return jax.grad(lambda x: cross_entropy(PROGRAM.logits(operations, weights, x)))(images)


def apply_native(module, weights, images):
  out, updates = module.apply(weights, images, train=True, mutable=["batch_stats"])
  return out, updates["batch_stats"]


def sgd(train_logits, weights, steps=3, lr=0.1, decay=5e-4, momentum=0.9):
  """Some steps of the benchmark's optimizer."""

  @jax.jit
  def step(weights, velocity):
    def loss(params):
      out, stats = train_logits({**weights, "params": params}, IMAGES)
      return cross_entropy(out), stats

    gradients, stats = jax.grad(loss, has_aux=True)(weights["params"])
    gradients = jax.tree.map(lambda g, p: g + decay * p, gradients, weights["params"])
    velocity = jax.tree.map(lambda v, g: momentum * v + g, velocity, gradients)
    moved = jax.tree.map(lambda p, v, g: p - lr * (g + momentum * v), weights["params"], velocity, gradients)
    return {"params": moved, "batch_stats": stats}, velocity

  velocity = jax.tree.map(jnp.zeros_like, weights["params"])
  for _ in range(steps):
    weights, velocity = step(weights, velocity)
  return weights


@pytest.mark.parametrize("cell", _first(CELLS), ids=str)
def test_logits_and_input_gradients_equal_the_native_network(cell):
  weights, module = variables(cell), PROGRAM.native(cell)
  wide = PROGRAM.widen(cell, weights)
  wanted = jax.jit(module.apply)(weights, IMAGES)
  np.testing.assert_allclose(logits(cell, wide, IMAGES), wanted, rtol=1e-5, atol=1e-5)
  gradient = jax.jit(jax.grad(lambda x: cross_entropy(module.apply(weights, x))))(IMAGES)
  found = input_gradient(jnp.array(cell), wide, IMAGES)
  np.testing.assert_allclose(found, gradient, rtol=1e-4, atol=1e-5 * float(jnp.abs(gradient).max()) + 1e-12)


@pytest.mark.ci
def test_the_published_size_agrees_too():
  program, cell = OneProgram(num_classes=10), operations_of(11)
  module, images = program.native(cell), IMAGES[:2]
  weights = jax.jit(module.init)(jax.random.key(3), images)
  found = jax.jit(program.logits)(cell, program.widen(cell, weights), images)
  np.testing.assert_allclose(found, jax.jit(module.apply)(weights, images), rtol=1e-5, atol=1e-5)


@pytest.mark.ci
@pytest.mark.parametrize("cell", _first(CELLS[:2]), ids=str)
def test_training_is_that_of_the_native_network_and_unused_weights_stay_zero(cell):
  weights, module = variables(cell), PROGRAM.native(cell)
  native = sgd(functools.partial(apply_native, module), weights)
  wide = sgd(functools.partial(PROGRAM.train_logits, cell), PROGRAM.widen(cell, weights))
  back = flax.traverse_util.flatten_dict(PROGRAM.narrow(cell, wide))
  wanted = flax.traverse_util.flatten_dict(native)
  assert back.keys() == wanted.keys()
  for path, leaf in wanted.items():
    np.testing.assert_allclose(back[path], leaf, rtol=1e-4, atol=1e-5, err_msg=str(path))
  again = flax.traverse_util.flatten_dict(PROGRAM.widen(cell, native))
  for path, leaf in flax.traverse_util.flatten_dict(wide).items():
    if path[0] == "params":
      np.testing.assert_array_equal(np.asarray(leaf)[np.asarray(again[path]) == 0], 0)


@pytest.mark.ci
def test_widening_loses_nothing():
  for cell in CELLS:
    back = PROGRAM.narrow(cell, PROGRAM.widen(cell, variables(cell)))
    assert jax.tree.all(jax.tree.map(np.array_equal, back, variables(cell)))
  shapes = [jax.tree.map(jnp.shape, PROGRAM.widen(cell, variables(cell))) for cell in CELLS]
  assert all(shape == shapes[0] for shape in shapes)


def test_weights_of_another_cell_are_refused():
  with pytest.raises(InputError, match="not those of the cell"):
    PROGRAM.widen(CELLS[1], variables(CELLS[0]))


@pytest.mark.ci
def test_cells_share_one_compiled_program():
  predict = jax.jit(lambda classifier, images: classifier(images))
  answers = [predict(PROGRAM.classifier(cell, PROGRAM.widen(cell, variables(cell))), IMAGES) for cell in CELLS[:3:2]]
  assert predict._cache_size() == 1
  assert not np.allclose(answers[0], answers[1])


@pytest.mark.ci
def test_weights_start_as_pytorch_draws_them():
  cell = CELLS[0]
  narrow = PROGRAM.narrow(cell, PROGRAM.init(jax.random.key(7), cell))
  assert jax.tree.map(jnp.shape, narrow) == jax.tree.map(jnp.shape, variables(cell))
  layer = narrow["params"]["cells_0"]["layers_1"]
  bound = 1 / np.sqrt(9 * 4)
  assert 0.9 * bound < np.abs(layer["op_1"]["kernel"]).max() <= bound and np.all(layer["op_2"]["scale"] == 1)
  assert np.all(narrow["batch_stats"]["stem_1"]["var"] == 1) and np.any(narrow["params"]["classifier"]["bias"] != 0)
  # A layer that two cells have in common starts alike in both.
  other = PROGRAM.narrow(CELLS[3], PROGRAM.init(jax.random.key(7), CELLS[3]))
  np.testing.assert_array_equal(other["params"]["cells_0"]["layers_1"]["op_1"]["kernel"], layer["op_1"]["kernel"])


def census(function, *args):
  """Switches of a lowered program, and its convolutions outside of them: those that run whatever the operations are.

  A choice by a constant, which is how JAX writes down that of the platform, is none.
  """
  text = jax.jit(function).lower(*args).as_text()
  counts, switches = {}, 0
  for body in re.split(r"\n(?=  func\.func )", text)[1:]:
    name, depth, switch, always, calls = re.search(r"@([\w.]+)", body)[1], 0, None, 0, []
    constants = set(re.findall(r"(%\w+) = stablehlo\.constant", body))
    for line in body.splitlines():
      chosen = re.search(r'(%\w+) = "stablehlo\.case"\((%\w+)\)', line)
      if chosen and chosen[2] in constants:
        constants.add(chosen[1])
      elif chosen:
        switches += 1
        switch = depth if switch is None else switch
      if switch is None:
        always += "stablehlo.convolution" in line
        calls += re.findall(r"call @([\w.]+)", line)
      depth += line.count("{") - line.count("}")
      if switch is not None and depth <= switch:
        switch = None
    counts[name] = (always, calls)
  total = lambda name: counts[name][0] + sum(map(total, counts[name][1]))
  return switches, total("main")


def test_operations_shared_by_all_images_stay_a_switch_and_batched_ones_compute_every_branch():
  wide = PROGRAM.widen(CELLS[0], variables(CELLS[0]))
  operations, edges = jnp.array(CELLS[0]), 6 * 3
  one = lambda operations, image: PROGRAM.logits(operations, wide, image[None])[0]
  # Stem, and two reductions of three convolutions.
  fixed = 1 + 2 * 3
  assert census(lambda o, x: PROGRAM.logits(o, wide, x), operations, IMAGES) == (edges, fixed)
  # How attacks see it: one image, mapped over images.
  assert census(jax.vmap(one, (None, 0)), operations, IMAGES) == (edges, fixed)
  # The trap: a cell per image computes both convolutions of every edge, for every image.
  batched = census(jax.vmap(one), jnp.tile(operations, (6, 1)), IMAGES)
  assert batched == (0, fixed + 2 * edges)


def test_a_batch_of_cells_is_refused():
  wide = PROGRAM.widen(CELLS[0], variables(CELLS[0]))
  with pytest.raises(InputError, match="one cell at a time"):
    PROGRAM.logits(jnp.zeros((6, 6), jnp.int32), wide, IMAGES)
  for cell in ((1, 2, 3), (0, 0, 0, 0, 0, 5)):
    with pytest.raises(InputError, match="6 operations from 0 to 4"):
      PROGRAM.native(cell)


def test_a_network_of_no_width_is_refused():
  for options in ({"width": 0}, {"depth": 0}, {"width": 1.5}, {"num_classes": 0}):
    with pytest.raises(InputError, match=f"{next(iter(options))} must be"):
      OneProgram(**options)


def test_layers_have_the_names_of_the_published_weights():
  names = {torch_name(path) for path in flax.traverse_util.flatten_dict(variables(CELLS[0]))}
  assert {
    "stem.0.weight",
    "stem.1.running_mean",
    "cells.0.layers.1.op.1.weight",
    "cells.0.layers.5.op.2.running_var",
    "cells.1.conv_a.op.1.weight",
    "cells.1.conv_b.op.2.bias",
    "cells.1.downsample.1.weight",
    "lastact.0.weight",
    "classifier.bias",
  } <= names
  assert not any(name.startswith(("cells.0.layers.2", "cells.0.layers.3", "cells.0.layers.4")) for name in names)
