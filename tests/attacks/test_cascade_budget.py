"""The minimum budget of a cascade, on a classifier whose distances are known."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.attacks.cascade_budget import CascadeBudget
from jaxrobust.attacks.registry import make_attack
from jaxrobust.attacks.schedule import Cascade, Stage
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.engine.api import attack_images


def test_the_search_finds_the_distance_to_a_plane():
  # Class 1 wins once the mean of all pixels reaches 1/2: the linf distance is 1/2 minus the mean.
  model = Classifier.from_function(lambda x: jnp.stack([0.0 * x[:, 0, 0, 0], 10 * (x.mean((1, 2, 3)) - 0.5)], 1), 2)
  distances = np.array([0.002, 0.01, 0.03, 0.11, 0.24], np.float32)
  images = np.broadcast_to((0.5 - distances)[:, None, None, None], (5, 4, 4, 1)).copy()
  attacks = (Stage(make_attack("pgd", num_steps=3, step_size=0.5)), Stage(make_attack("fgsm")))
  search = CascadeBudget(Cascade(attacks, "two"), tolerance=0.02, max_items=20)
  result = attack_images(search, model, images, np.zeros(5, int))
  found = result.distance / distances
  assert (found >= 1 - 1e-4).all() and (found <= 1.021).all(), found
  few = attack_images(CascadeBudget(Cascade(attacks, "two"), max_items=2), model, images, np.zeros(5, int))
  assert np.isinf(few.distance[-1]) and np.isfinite(few.distance[0]), "budgets are tried from the smallest on"


def test_minimal_cascades_are_refused():
  with pytest.raises(InputError, match="minimal distances by itself"):
    CascadeBudget(Cascade((Stage(make_attack("ddn")),)))
