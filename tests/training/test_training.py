"""Training: images crafted inside the step, the same weights from the same config, folders that are not mixed up."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxrobust.attacks.pgd import PGD
from jaxrobust.core.budget import inside
from jaxrobust.core.errors import CellMismatchError, InputError, UnknownNameError
from jaxrobust.data.registry import load_data
from jaxrobust.models.registry import make_model
from jaxrobust.models.zoo import fingerprint, load_classifier, read_metadata
from jaxrobust.testing import examples, fixture
from jaxrobust.training.composition import make_plan
from jaxrobust.training.config import TrainConfig, make_train_config
from jaxrobust.training.inputs import check_inputs, known_content
from jaxrobust.training.loop import train
from jaxrobust.training.state import init_state, variables_of
from jaxrobust.training.step import Recipe, train_step
from jaxrobust.training.stream import Mixture
from jaxrobust.training.techniques.adversarial import craft

CONFIG = TrainConfig(epochs=1, batch_size=128, seed=3)


@jax.jit
def losses(classifier, images, labels):
  return optax.softmax_cross_entropy_with_integer_labels(classifier(images), labels)


@pytest.mark.parametrize(("norm", "eps"), [("linf", 0.05), ("l2", 0.3), ("l1", 2.0)])
def test_crafted_images_are_inside_ball_and_box_and_raise_the_loss(norm, eps):
  classifier = fixture()
  images, labels = examples(classifier)
  attack = PGD(norm, num_steps=4, step_size=0.5)
  wanted = jax.nn.one_hot(labels, classifier.num_classes)
  keys = jax.random.split(jax.random.key(0), len(images))
  found = np.asarray(jax.jit(functools.partial(craft, attack))(classifier, images, wanted, eps, keys))
  assert found.min() >= 0 and found.max() <= 1
  order = {"l1": 1, "l2": 2, "linf": np.inf}[norm]
  delta = (found.astype(np.float64) - images).reshape(len(images), -1)
  assert inside(np.linalg.norm(delta, order, axis=1), eps).all()
  assert (losses(classifier, found, labels) > losses(classifier, images, labels)).all()


def test_no_gradient_flows_through_crafted_images():
  classifier = fixture()
  images, labels = examples(classifier, 4)
  attack = PGD(num_steps=2)

  def pixels(scale):
    weights = {**classifier.variables, "second": scale * classifier.variables["second"]}
    changed = type(classifier)(weights, classifier.apply, classifier.num_classes)
    wanted, keys = jax.nn.one_hot(labels, classifier.num_classes), jax.random.split(jax.random.key(0), 4)
    return jnp.sum(craft(attack, changed, images, wanted, 0.1, keys))

  assert float(jax.jit(jax.grad(pixels))(1.0)) == 0.0


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
  return train(CONFIG, tmp_path_factory.mktemp("training") / "net", quiet=True)


def test_one_epoch_improves_the_loss_on_the_digits(trained):
  images, labels = load_data("digits32-train").take(np.arange(256))
  classifier = load_classifier(trained)
  fresh = classifier.apply.module.init(jax.random.key(0), images[:1])
  before = type(classifier)({**classifier.variables, "module": fresh}, classifier.apply, 10)
  assert losses(classifier, images, labels).mean() < 0.7 * losses(before, images, labels).mean()


def test_two_runs_of_one_config_give_identical_weights(trained, tmp_path):
  again = load_classifier(train(CONFIG, tmp_path / "again", quiet=True))
  jax.tree.map(np.testing.assert_array_equal, again.variables, load_classifier(trained).variables)


def test_another_seed_gives_another_network(trained, tmp_path):
  other = train(TrainConfig(epochs=1, batch_size=128, seed=4), tmp_path / "other", quiet=True)
  assert fingerprint(load_classifier(other)) != fingerprint(load_classifier(trained))


def test_a_finished_folder_is_returned_as_it_is(trained):
  files = {path: path.stat().st_mtime_ns for path in trained.rglob("*") if path.is_file()}
  assert train(CONFIG, trained, quiet=True) == trained
  assert files == {path: path.stat().st_mtime_ns for path in trained.rglob("*") if path.is_file()}


@pytest.mark.parametrize("change", [{"seed": 5}, {"epochs": 2}, {"techniques": ("flip",)}])
def test_another_config_in_the_same_folder_is_refused_and_changes_nothing(trained, change):
  before = fingerprint(load_classifier(trained))
  config = make_train_config({"epochs": 1, "batch_size": 128, "seed": 3, **change})
  with pytest.raises(CellMismatchError, match="holds a network trained with another config; use another folder"):
    train(config, trained, quiet=True)
  assert fingerprint(load_classifier(trained)) == before


def test_a_run_does_not_go_on_with_other_examples_or_networks_than_it_began_with(trained, tmp_path):
  begun = json.loads((trained / "inputs.json").read_text())
  assert begun == {"digits32-train": load_data("digits32-train").fingerprint()}
  mixed = dataclasses.replace(CONFIG, extra_data="digits32", extra_part=0.25)
  for config, name in ((CONFIG, "digits32-train"), (mixed, "digits32"), (mixed, "digits32-train")):
    folder = tmp_path / f"{name} {bool(config.extra_data)}"
    folder.mkdir()
    (folder / "inputs.json").write_text(json.dumps({name: "0" * 16}))
    with pytest.raises(CellMismatchError, match=f"begun with other content of {name};"):
      train(config, folder, quiet=True)
  check_inputs(tmp_path / "new", {"teacher": "a"}, write=False)
  assert not (tmp_path / "new").exists()


def test_the_content_of_extra_and_of_chosen_examples_is_known():
  data, extra = load_data("digits32-train@100"), load_data("digits32")
  assert known_content("ours", Mixture(data, extra, 4)) == {"ours": data.fingerprint(), "digits32": extra.fingerprint()}


def test_the_folder_says_how_the_network_was_trained(trained):
  notes = read_metadata(trained)["notes"]["train"]
  assert (notes["seed"], notes["epochs"], notes["data"]) == (3, 1, "digits32-train")
  assert json.dumps(notes) and notes["techniques"] == []


@pytest.mark.parametrize(
  ("option", "near"), [("epoch", "'epochs'"), ("learningrate", "'learning_rate'"), ("technique", "'techniques'")]
)
def test_an_unknown_training_option_gets_the_nearest_names(option, near):
  with pytest.raises(UnknownNameError, match=f"unknown training option '{option}'; did you mean .*{near}"):
    make_train_config({option: 1})


@pytest.mark.parametrize(
  ("options", "kind", "reason"),
  [
    pytest.param({"epochs": 0}, InputError, "epochs"),
    pytest.param({"epochs": "many"}, InputError, "epochs"),
    pytest.param({"batch_size": 0}, InputError, "batch_size"),
    ({"arch": "cnn-tinny"}, UnknownNameError, "unknown model 'cnn-tinny'; did you mean 'cnn-tiny'"),
    ({"data": "digit32"}, UnknownNameError, "unknown dataset 'digit32'; did you mean 'digits32'"),
    ({"techniques": ("pgdd",)}, UnknownNameError, "unknown technique 'pgdd'"),
    ({"techniques": ("pgd-at",), "options": {"pgd-at": {"steps": 3}}}, UnknownNameError, "option of pgd-at 'steps'"),
    ({"techniques": ("pgd-at",), "options": {"pgd-at": {"eps": "-1/255"}}}, InputError, "eps -1/255 is negative"),
    ({"techniques": ("pgd-at", "trades")}, InputError, "only one technique may set the loss: pgd-at, trades"),
    ({"options": {"mixup": {"alpha": 1.0}}}, InputError, "options for 'mixup', which is not among the techniques"),
    ({"arch": 5}, InputError, "arch must be a name"),
    ({"batch_size": 1.5}, InputError, "batch_size must be an integer"),
    ({"optimizer": "adam"}, UnknownNameError, "unknown optimizer 'adam'; did you mean 'adamw'"),
    ({"batch_size": 100_000}, InputError, "batch_size 100000 is larger than digits32-train"),
  ],
)
def test_bad_configs_are_refused_before_anything_is_written(tmp_path, options, kind, reason):
  with pytest.raises(kind, match=reason):
    train(make_train_config(options), tmp_path / "net", quiet=True)
  assert not (tmp_path / "net").exists()


def test_the_budget_grows_from_zero_and_the_step_counts():
  images, labels = load_data("digits32-train").take(np.arange(8))
  plan = make_plan(("pgd-at",), {"pgd-at": {"eps": "0.3", "num_steps": 1, "step_size": 1.0, "random_start": False}})
  recipe = Recipe(make_model("cnn-tiny"), 10, (0.5,) * 3, (0.5,) * 3, plan, optax.sgd(0.0), attack_warmup=3)
  state = init_state(recipe.module, recipe.optimizer, jax.random.key(0), (32, 32, 3), averaged=False)
  step = jax.jit(functools.partial(train_step, recipe))
  seen = []
  for _ in range(5):
    state, report = step(state, images, labels, np.arange(8))
    seen.append(float(report["metrics"].compute()["loss"]))
  assert int(state.step) == 5 and 0 <= float(report["metrics"].compute()["accuracy"]) <= 1
  # Without learning the loss grows with the budget alone, for the 3 steps of the warm-up, then stays.
  assert seen[0] < seen[1] < seen[2] < seen[3] == seen[4]
  assert set(variables_of(state)) == {"params"}
