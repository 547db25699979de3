"""Training on pictures: at the size of the network, from crops of the whole; networks that draw noise of their own."""

import jax
import numpy as np
import pytest

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.data.registry import load_data
from jaxrobust.evaluation.preprocess import model_preprocessing
from jaxrobust.models.registry import make_model
from jaxrobust.models.zoo import load_classifier
from jaxrobust.training import loop
from jaxrobust.training.config import make_train_config
from jaxrobust.training.recipes import crop_while_reading, make_recipe
from tests.data.miniatures import picture


@pytest.fixture
def folder(tmp_path):
  for number in range(8):
    picture(tmp_path / "pictures" / "ab"[number % 2] / f"{number}.png", (60, 40), (20 * number, 90, 10))
  return tmp_path / "pictures"


def test_pictures_are_seen_at_the_size_of_the_network_and_cropped_while_they_are_read(folder, tmp_path, monkeypatch):
  seen = []
  plain = loop.Stream._cropped
  monkeypatch.setattr(loop.Stream, "_cropped", lambda self, ids, step: seen.append(step) or plain(self, ids, step))
  options = {"arch": "cnn-tiny", "data": f"folder:{folder}", "epochs": 1.0, "batch_size": 4, "seed": 1}
  made = make_train_config({**options, "techniques": ("random-resized-crop", "flip")})
  loop.train(made, tmp_path / "net", quiet=True)
  assert load_classifier(tmp_path / "net").input_shape == (32, 32, 3) and set(seen) >= {0, 1}


@pytest.mark.ci
def test_another_size_than_the_architectures_is_kept_by_the_network(folder, tmp_path):
  options = {"arch": "cnn-tiny", "data": f"folder:{folder}", "epochs": 1.0, "batch_size": 8, "techniques": ("flip",)}
  plain, made = make_train_config(options), make_train_config({**options, "preprocess": "resize28-crop24-bicubic"})
  assert "preprocess" not in plain.identity() and plain.identity() != made.identity()
  net = loop.train(made, tmp_path / "net", quiet=True)
  assert load_classifier(net).input_shape == (24, 24, 3) and model_preprocessing(net) == "resize28-crop24-bicubic"


def test_a_crop_is_left_to_the_devices_where_there_are_no_pictures(folder):
  made = make_train_config({"techniques": ("random-resized-crop", "flip"), "batch_size": 4})
  recipe = make_recipe(made, 10, 100, 10)
  crop, same = crop_while_reading(load_data("digits32-train"), recipe)
  assert crop is None and same is recipe
  crop, rest = crop_while_reading(load_data(f"folder:{folder}"), recipe)
  assert crop == (0.08, 1.0, 4 / 3) and [type(one).__name__ for one in rest.plan.augments] == ["Flip"]


@pytest.mark.ci
def test_a_network_that_draws_noise_in_evaluation_is_randomized(tmp_path):
  module = make_model("rse-vgg16", num_classes=4)
  image = np.full((2, 32, 32, 3), 0.5, np.float32)
  variables = jax.jit(module.init)(dict.fromkeys(("params", "noise"), jax.random.key(0)), image[:1])
  classifier = Classifier.from_module(module, variables)
  one, again, other = (classifier(image, jax.random.key(seed)) for seed in (1, 1, 2))
  assert classifier.randomized and (one == again).all() and (one != other).any()
  with pytest.raises(InputError, match="draws noise in evaluation too"):
    classifier(image)
  assert not Classifier.from_module(make_model("resnet20"), {}).randomized
