"""Numbers that no run could have are refused in one line before anything compiles; floats of any kind are images."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust import testing
from jaxrobust.attacks.registry import make_attack
from jaxrobust.core.compilation import count_compilations
from jaxrobust.core.errors import InputError
from jaxrobust.engine.api import attack_images
from jaxrobust.engine.memory import group_size
from jaxrobust.engine.options import EngineOptions

CASES = [
  ({"eps": 8}, "did you mean 8/255"),
  ({"budgets": ["4/255", 8]}, "did you mean 8/255"),
  ({"eps": "1e999999999"}, "is not a number or a fraction"),
  ({"seed": "a"}, "the seed must be an integer, got 'a'"),
  ({"seed": None}, "the seed must be an integer, got None"),
  ({"seed": 1.5}, "the seed must be an integer, got 1.5"),
  ({"restarts": 1.5}, "restarts must be an integer, got 1.5"),
  ({"restarts": 10**9}, "restarts must be at most"),
  ({"batch_size": 1.5}, "the batch size must be an integer, got 1.5"),
  ({"batch_size": 2**40}, "the batch size must be at most"),
  ({"samples": 2.5}, "samples must be an integer, got 2.5"),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("change", "reason"), CASES, ids=str)
def test_numbers_out_of_bounds_are_refused(change, reason):
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 2)
  good = {"attack": make_attack("fgsm"), "eps": 0.1}
  with count_compilations() as count, pytest.raises(InputError, match=reason) as error:
    attack_images(classifier=classifier, images=images, labels=labels, **{**good, **change})
  assert count.programs == 0 and "\n" not in str(error.value)


@pytest.mark.parametrize("steps", [2**31, 10**12, 1.5, 0])
def test_steps_have_bounds(steps):
  with pytest.raises(InputError, match="num_steps"):
    make_attack("pgd", num_steps=steps)


def test_there_are_never_more_slots_than_examples():
  options = EngineOptions.for_platform(2**30)
  size, groups = group_size(options, (32, 32, 3), 8, 1)
  assert size * groups <= 8
  # So many slots would not fit any memory; the clean pass is cut into batches by code of its own.
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 2)
  result = attack_images(make_attack("fgsm"), classifier, images, labels, eps=0.1, batch_size=10**9)
  assert len(result.images) == 2


def test_bfloat16_images_are_floats_like_others():
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 2)
  result = attack_images(make_attack("fgsm"), classifier, jnp.asarray(images, jnp.bfloat16), labels, eps=0.1)
  assert result.images.dtype == np.float32
