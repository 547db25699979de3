"""Names in their old spelling: configs, commands, runs, checkpoints and model folders that have them still work."""

import json

import jax.numpy as jnp
import pytest

from jaxrobust.cli.configuration import parse
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import CellMismatchError, InputError, UnknownNameError
from jaxrobust.core.spelling import _CURRENT, current_keys
from jaxrobust.core.types import Probe
from jaxrobust.models.weights.portable import SHIPPED, shipped
from jaxrobust.models.zoo import load_classifier, read_metadata
from jaxrobust.training import loop
from jaxrobust.training.composition import make_plan, make_technique
from jaxrobust.training.config import TrainConfig, make_train_config, same_identity
from jaxrobust.training.state import TrainState, restored, stored

OLD = {
  "optimiser": "sgd",
  "techniques": ("colour-jitter", "mae"),
  "options": {"colour-jitter": {"brightness": 0.1}, "mae": {"normalise": True}},
}
NEW = {
  "optimizer": "sgd",
  "techniques": ("color-jitter", "mae"),
  "options": {"color-jitter": {"brightness": 0.1}, "mae": {"normalize": True}},
}


def test_a_config_in_the_old_spelling_is_the_same_config():
  assert make_train_config(OLD) == make_train_config(NEW) == TrainConfig(**OLD) == TrainConfig(**NEW)
  with pytest.raises(InputError, match="'optimizer' is given in two spellings"):
    make_train_config({"optimiser": "sgd", "optimizer": "adamw"})
  with pytest.raises(UnknownNameError, match="did you mean 'optimizer'"):
    make_train_config({"optimser": "sgd"})


def test_techniques_and_their_options():
  assert make_technique("colour-jitter") == make_technique("color-jitter")
  assert make_technique("mae", normalise=True).normalize and make_technique("contrastive-views", grey=0.5).gray == 0.5
  old = make_plan(["colour-jitter"], {"color-jitter": {"brightness": 0.1}})
  assert old == make_plan(["color-jitter"], {"colour-jitter": {"brightness": 0.1}})


def test_a_command(tmp_path):
  defaults = {"optimizer": "adamw", "options": {"mae": {"normalize": False}}}
  words = ["--optimiser=sgd", "--config.options.mae.normalise=True"]
  config = parse("train", words, defaults, "")
  assert config.to_dict() == {"optimizer": "sgd", "options": {"mae": {"normalize": True}}}
  file = tmp_path / "mine.py"
  file.write_text("from ml_collections import ConfigDict\ndef get_config(): return ConfigDict({'optimiser': 'sgd'})\n")
  assert parse("train", [f"--config={file}"], defaults, "").optimizer == "sgd"


def test_a_run_of_before_is_the_run_of_now(tmp_path):
  config = make_train_config(NEW)
  before = {**config.identity(), **json.loads(json.dumps(OLD))}
  del before["optimizer"]
  assert same_identity(before, config) and same_identity(config.identity(), config)
  (tmp_path / "run.json").write_text(json.dumps(before))
  assert not loop._finished(config, tmp_path)
  for other in ({**before, "optimiser": "adamw"}, {**before, "seed": 1}, {}, None, "sgd"):
    (tmp_path / "run.json").write_text(json.dumps(other))
    if other is not None:
      with pytest.raises(CellMismatchError):
        loop._finished(config, tmp_path)


def test_checkpoints_keep_their_names():
  state = TrainState({"w": 1}, {}, (), (), 0, objective_state=jnp.ones(2))
  parts = stored(state)
  assert list(parts) == ["params", "batch_stats", "opt_state", "average", "step", "memory"]
  assert restored(parts)._asdict() == state._asdict()
  assert "memory" not in stored(state._replace(objective_state=()))


def test_classifiers():
  for randomized in (
    Classifier.from_function(lambda x, key: x, 3, randomised=True),
    Classifier({}, None, 3, randomised=True),
  ):
    assert randomized.randomised and randomized.randomized


def test_probes():
  probe = Probe(0, 1, queries=3, looked=1)
  assert probe == Probe(0, 1, 3, point_query=1) and probe._replace(looked=2).point_query == 2
  with pytest.raises(InputError, match="two spellings"):
    probe._replace(looked=1, point_query=1)


@pytest.mark.parametrize("name", shipped())
def test_shipped_folders(name):
  """Their notes are in the old spelling, and are the config that trained them."""
  notes = read_metadata(SHIPPED / name)["notes"]
  assert load_classifier(name).num_classes == 10
  trained = notes.get("train")
  if trained:
    assert same_identity(trained, make_train_config(current_keys(trained)))


def test_names_of_now_are_never_old():
  assert not set(_CURRENT) & set(_CURRENT.values())
