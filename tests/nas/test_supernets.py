"""Supernets: a masked subnet is the network cut out of it, one program serves all, training is the sandwich."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.analysis.supernets import factor_effects
from jaxrobust.core.errors import CellMismatchError, InputError, StoppedError, UnknownNameError
from jaxrobust.data.source import ArraySource
from jaxrobust.nas.supernets import run, study, training
from jaxrobust.nas.supernets.network import forward, init_params, slice_params, subnet_classifier
from jaxrobust.nas.supernets.space import (
  KINDS,
  SPACES,
  StageChoices,
  Subnet,
  SupernetSpace,
  describe,
  largest,
  pick,
  smallest,
)

# Everything that a small space varies, in two blocks.
TINY = {
  "mobilenetv3": SupernetSpace("mobilenetv3", 4, (StageChoices((4,), (1, 2), (3, 5), (2.0, 3.0)),), (8,)),
  "resnet-basic": SupernetSpace("resnet-basic", 4, (StageChoices((4, 6), (1, 2), (3, 5)),), (8,), (3, 5)),
  "resnet-bottleneck": SupernetSpace(
    "resnet-bottleneck", 4, (StageChoices((8, 12), (1, 2), (3, 5), (0.25, 0.5)),), (8,)
  ),
}
IMAGES = np.random.default_rng(0).normal(size=(16, 8, 8, 3)).astype(np.float32)
LABELS = np.arange(16) % 4
PIXELS = np.random.default_rng(0).uniform(size=(16, 8, 8, 3)).astype(np.float32)
DATA = ArraySource("noise", PIXELS, LABELS, 4)


@pytest.mark.ci
@pytest.mark.parametrize("kind", KINDS)
def test_a_masked_subnet_is_the_one_cut_out_of_it(kind):
  space = TINY[kind]
  params = init_params(space, jax.random.key(1), 4)
  rng = np.random.default_rng(2)
  statistics, logits = training.batch_statistics, jax.jit(forward, static_argnums=0)
  before = statistics._cache_size(), logits._cache_size()
  for subnet in (smallest(space), pick(space, rng), pick(space, rng), largest(space)):
    stats = training.calibrate(space, params, subnet, [IMAGES[:8], IMAGES[8:]])
    masked = logits(space, params, stats, subnet, IMAGES)[0]
    small, own = slice_params(space, params, subnet), slice_params(space, stats, subnet)
    assert sum(leaf.size for leaf in jax.tree.leaves(small)) <= sum(leaf.size for leaf in jax.tree.leaves(params))
    # The cut network measures the same statistics itself, and says the same.
    measured = [forward(space, small, None, subnet, batch)[1] for batch in (IMAGES[:8], IMAGES[8:])]
    again = jax.tree.map(lambda a, b: (a + b) / 2, *measured)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), again, own)
    np.testing.assert_allclose(masked, forward(space, small, again, subnet, IMAGES)[0], rtol=1e-5, atol=1e-5)
  assert (statistics._cache_size() - before[0], logits._cache_size() - before[1]) == (1, 1)


@pytest.mark.ci
def test_depth_kernel_and_width_change_what_is_computed():
  space = TINY["resnet-basic"]
  params = init_params(space, jax.random.key(1), 4)
  top = largest(space)
  whole = forward(space, params, None, top, IMAGES)[0]
  for factor in space.factors():
    small = getattr(smallest(space), factor)
    other = forward(space, params, None, top._replace(**{factor: small}), IMAGES)[0]
    assert not np.allclose(whole, other), factor


def test_training_teaches_the_largest_by_labels_and_the_others_by_it():
  space = TINY["resnet-basic"]
  recipe = training.SupernetRecipe(steps=20, batch_size=16, learning_rate=0.1)
  params, losses = training.train_supernet(space, DATA, recipe)
  again, _ = training.train_supernet(space, DATA, recipe)
  assert jax.tree.all(jax.tree.map(np.array_equal, params, again))
  assert np.mean(losses[-4:]) < 0.8 * losses[0]
  subnets = training.sandwich(space, 0, 3)
  assert len(subnets) == 4 and subnets[0].width.tolist() == [6] and subnets[-1].width.tolist() == [4]
  gradient, _, logits = training.subnet_gradient(
    space, params, subnets[-1], IMAGES, jax.nn.softmax(forward(space, params, None, subnets[0], IMAGES)[0])
  )
  # Channels that the smallest does not have learn nothing from it.
  kernel = gradient["s0b0"]["conv0"]["kernel"]
  assert np.all(kernel[..., 4:] == 0) and np.any(kernel[..., :4] != 0) and logits.shape == (16, 4)


def test_a_study_varies_factors_one_at_a_time_by_two_programs():
  space = TINY["resnet-basic"]
  params = init_params(space, jax.random.key(1), 4)
  chosen = study.candidates(space, count=8, each=3)
  assert [one.group for one in chosen].count("random") == 8 and len(chosen) == 8 + 3 * 4
  for one in chosen:
    if one.group in ("kernel", "depth", "width"):
      same = [name for name in Subnet._fields if name not in (one.group, "stem")]
      assert all(np.array_equal(getattr(one.subnet, name), getattr(largest(space), name)) for name in same)
  before = training.batch_statistics._cache_size() + study.judge._cache_size()
  rows = list(study.run_study(space, params, chosen, PIXELS, PIXELS[:12], LABELS[:12], 0.05, 8))
  assert training.batch_statistics._cache_size() + study.judge._cache_size() - before <= 2
  assert len(rows) == len(chosen) and all(0 <= row.robust <= row.clean <= 1 for row in rows)
  assert set(rows[0].factors) == {"params", "size", "kernel", "depth", "last depth", "width"}


def test_a_study_goes_on_where_it_was_left(tmp_path, monkeypatch):
  monkeypatch.setitem(SPACES, "tiny", TINY["resnet-basic"])
  recipe = training.SupernetRecipe(steps=6, batch_size=8, save_every=2)
  asked = run.SupernetStudy("tiny", recipe, 0.05, subnets=4, each=1, calibration=64)
  data = ArraySource("more", np.tile(PIXELS, (4, 1, 1, 1)), np.tile(LABELS, 4), 4)
  rows = list(asked.run(data, DATA, tmp_path / "whole"))
  # Stopped in training, and after two subnets.
  advance, stops = training._advance, iter([False, False, False, True])

  def stopping(*arguments):
    if next(stops, False):
      raise StoppedError("asked to stop")
    return advance(*arguments)

  monkeypatch.setattr(training, "_advance", stopping)
  with pytest.raises(StoppedError):
    list(asked.run(data, DATA, tmp_path / "cut"))
  begun = asked.run(data, DATA, tmp_path / "cut")
  assert [next(begun), next(begun)] == rows[:2]
  begun.close()
  assert list(asked.run(data, DATA, tmp_path / "cut")) == rows == run.read_rows(tmp_path / "cut")
  files = [(tmp_path / name / run.ROWS).read_bytes() for name in ("whole", "cut")]
  assert files[0] == files[1]
  with pytest.raises(CellMismatchError, match="another study"):
    next(asked.run(ArraySource("other", 1 - data.images, data.labels, 4), DATA, tmp_path / "cut"))
  with pytest.raises(InputError, match="noise has 4 classes, few has 3"):
    next(asked.run(DATA, ArraySource("few", PIXELS, LABELS % 3, 3), tmp_path / "few"))
  # Nothing is trained, and the folder is nobody's, before all can be judged.
  for source, reason in (
    (DATA, "at least a batch of 64 images, got 16"),
    (ArraySource("gray", data.images[..., :1], data.labels, 4), "three colors; gray has 8x8x1"),
  ):
    with pytest.raises(InputError, match=reason):
      next(asked.run(source, DATA, tmp_path / "none"))
  assert not (tmp_path / "none").exists()
  with pytest.raises(InputError, match="subnets must be at least 0"):
    run.SupernetStudy("tiny", recipe, 0.05, subnets=-1)
  with pytest.raises(UnknownNameError, match="unknown supernet 'vgg'"):
    run.SupernetStudy("vgg", recipe, 0.05)


def test_a_subnet_drawn_twice_counts_once():
  three = [study.StudyRow("size", {"size": size}, size / 20, 0.5) for size in (12.0, 14.0, 16.0)]
  clean, _ = factor_effects(three * 6)
  assert clean.subnets == 3 and clean.r == pytest.approx(1) and np.isnan(clean.r_low)
  # Two lie on a line whatever they are.
  clean, _ = factor_effects(three[:2] * 6)
  assert clean.subnets == 2 and np.isnan(clean.r)


@pytest.mark.ci
def test_a_subnet_is_a_classifier_and_all_share_its_program():
  space = TINY["mobilenetv3"]
  params = init_params(space, jax.random.key(1), 4)
  predict = jax.jit(lambda classifier, images: classifier(images))
  answers = []
  for subnet in (smallest(space), largest(space)):
    stats = training.calibrate(space, params, subnet, [IMAGES])
    made = subnet_classifier(space, params, stats, subnet, 0.0, 1.0)
    answers.append(predict(made, jnp.asarray(IMAGES)))
    np.testing.assert_allclose(answers[-1], forward(space, params, stats, subnet, IMAGES)[0], atol=1e-5)
  assert predict._cache_size() == 1 and not np.allclose(*answers)


def test_spaces_say_what_they_are():
  for name, space in SPACES.items():
    top, low = largest(space), smallest(space)
    assert np.all(low.width <= top.width) and low.kernel.shape == top.kernel.shape, name
    assert describe(space, low, space.sizes[0])["size"] == space.sizes[0]
    # Input size and three more: 3 supernets × (200 + 4 × 50) are RobustART's 1,200 subnets.
    assert len(study.candidates(space)) == 400 or name.startswith("small-"), name
  with pytest.raises(InputError, match="kinds of supernets"):
    SupernetSpace("vgg", 8, (), (8,))
