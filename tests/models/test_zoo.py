"""Trained classifiers on disk: round trip, fingerprints, and one readable line for every kind of damage."""

import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import CorruptFileError, InputError, JaxrobustError, StorageError, UnknownNameError
from jaxrobust.models.registry import MODELS, list_models, make_model
from jaxrobust.models.weights import portable
from jaxrobust.models.zoo import fingerprint, load_classifier, read_metadata, save_classifier
from jaxrobust.results import load_results

OPTIONS = {"features": (2, 3), "hidden": 4}
MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.3, 0.25)


@pytest.fixture(scope="module")
def original():
  module = make_model("cnn-tiny", 5, **OPTIONS)
  variables = module.init(jax.random.key(0), np.zeros((1, 32, 32, 3), np.float32))
  return module, variables


@pytest.fixture(scope="module")
def saved(original, tmp_path_factory):
  folder = tmp_path_factory.mktemp("zoo") / "net"
  options, notes = {**OPTIONS, "features": list(OPTIONS["features"])}, {"epochs": 3}
  save_classifier(folder, "cnn-tiny", original[1], num_classes=5, mean=MEAN, std=STD, options=options, notes=notes)
  return folder


@pytest.fixture
def copy(saved, tmp_path):
  return shutil.copytree(saved, tmp_path / "net")


def edit(folder, **changes):
  path = folder / "classifier.json"
  metadata = json.loads(path.read_text()) | changes
  path.write_text(json.dumps({key: value for key, value in metadata.items() if value != "REMOVE"}))


def test_a_saved_classifier_comes_back_with_the_same_logits_and_fingerprint(original, saved):
  module, variables = original
  wanted = Classifier.from_module(module, variables, mean=MEAN, std=STD)
  found = load_classifier(saved)
  images = np.random.default_rng(0).uniform(0, 1, (2, 32, 32, 3)).astype(np.float32)
  np.testing.assert_array_equal(found(images), wanted(images))
  assert fingerprint(found) == fingerprint(wanted)
  assert (found.num_classes, found.input_shape, found.randomized) == (5, (32, 32, 3), False)


def test_metadata_keeps_the_notes_and_nothing_temporary_is_left(saved):
  metadata = read_metadata(saved)
  assert metadata["notes"] == {"epochs": 3} and metadata["arch"] == "cnn-tiny"
  assert sorted(path.name for path in saved.iterdir()) == ["classifier.json", "weights"]
  assert read_metadata(saved / "nowhere") is None


def test_saving_again_replaces_the_weights(original, copy):
  changed = jax.tree.map(lambda x: x + 1, original[1])
  before = fingerprint(load_classifier(copy))
  save_classifier(copy, "cnn-tiny", changed, num_classes=5, options=read_metadata(copy)["options"])
  again = load_classifier(copy)
  assert fingerprint(again) != before
  jax.tree.map(np.testing.assert_array_equal, again.variables["module"], changed)


def constant(w=(1.0, 2.0, 3.0), name="w", classes=3, dtype=jnp.float32, randomized=False):
  return Classifier.from_function(
    lambda v, x, *key: x, classes, variables={name: jnp.asarray(w, dtype)}, randomized=randomized
  )


def test_a_fingerprint_is_the_same_in_every_process_and_for_every_copy():
  # Cells on disk hold fingerprints: this value must never change.
  tree = jax.tree.map(np.asarray, constant().variables)
  module = make_model("cnn-tiny", 3)
  assert fingerprint(Classifier.from_module(module, tree)) == "334d03b9f969c07c"
  assert fingerprint(Classifier.from_module(module, constant().variables)) == "334d03b9f969c07c"
  assert fingerprint(constant()) == fingerprint(Classifier(tree, constant().apply, 3))


def test_shipped_cells_hold_the_fingerprint_of_their_network():
  for name in portable.shipped():
    cells = portable.SHIPPED / name / "cells"
    # Those of the digits have none: their evaluation takes seconds.
    assert cells.is_dir() != name.startswith("digits32-")
    found = {result.config["model_fingerprint"] for result in load_results(cells)} if cells.is_dir() else set()
    assert found <= {fingerprint(load_classifier(name))}


def test_a_fingerprint_changes_with_every_weight_name_shape_type_and_goal():
  nudged = (np.nextafter(np.float32(1), np.float32(2)), 2.0, 3.0)
  others = [
    constant(nudged),
    constant((2.0, 1.0, 3.0)),
    constant(name="v"),
    constant(np.array([[1.0, 2.0, 3.0]])),
    constant(classes=4),
    constant(dtype=jnp.int32),
    constant(randomized=True),
  ]
  assert len({fingerprint(other) for other in [constant(), *others]}) == 8


def test_a_fingerprint_covers_the_normalization(original):
  module, variables = original
  prints = {fingerprint(Classifier.from_module(module, variables, mean=m, std=s)) for m in (0, 0.5) for s in (1, 0.5)}
  assert len(prints) == 4


def refused(kind, folder, reason):
  with pytest.raises(kind, match=reason) as error:
    load_classifier(folder)
  assert "\n" not in str(error.value)


def test_a_missing_folder_is_named(tmp_path):
  refused(InputError, tmp_path / "nowhere", "no classifier at .*nowhere: the folder does not exist")


def test_an_unfinished_folder_is_named(copy):
  (copy / "classifier.json").unlink()
  refused(InputError, copy, r"classifier.json is missing \(was the training finished\?\)")


@pytest.mark.parametrize("text", ["", '{"arch": "cnn-ti', "[]", "null", '{"arch": "cnn-tiny"}', "\x00\x01"])
def test_damaged_metadata_is_refused(copy, text):
  (copy / "classifier.json").write_text(text)
  refused(CorruptFileError, copy, "classifier.json is not a classifier's metadata")


@pytest.mark.parametrize("key", ["arch", "num_classes", "mean", "std", "options", "notes"])
def test_a_missing_entry_is_damage_and_not_a_default(copy, key):
  edit(copy, **{key: "REMOVE"})
  refused(CorruptFileError, copy, f"not a classifier's metadata.*{key}")


@pytest.mark.parametrize(
  "change",
  [
    {"options": None},
    {"options": {"wings": 2}},
    {"num_classes": "ten"},
    {"arch": 5},
    {"mean": "abc"},
    {"mean": [0.5, "x", 0.5]},
    {"std": []},
    {"std": float("nan")},
    {"std": {"red": 1}},
  ],
)
def test_an_entry_of_the_wrong_kind_is_damage(copy, change):
  edit(copy, **change)
  refused(CorruptFileError, copy, "classifier's metadata")


def test_an_unknown_architecture_gets_the_nearest_names(copy):
  edit(copy, arch="cnn-tinny")
  refused(UnknownNameError, copy, "unknown model 'cnn-tinny'; did you mean 'cnn-tiny'")


@pytest.mark.parametrize("part", ["all", "largest"])
def test_truncated_weights_are_refused_in_one_line(copy, part):
  files = sorted((f for f in (copy / "weights").rglob("*") if f.is_file()), key=lambda f: f.stat().st_size)
  for file in files if part == "all" else files[-1:]:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
  refused(CorruptFileError, copy, f"the weights in {copy} cannot be read: ")


def test_missing_weights_are_refused_in_one_line(copy):
  shutil.rmtree(copy / "weights")
  refused(CorruptFileError, copy, f"the weights in {copy} cannot be read: ")


def test_weights_of_another_size_are_refused_in_one_line(copy):
  edit(copy, num_classes=7)
  refused(CorruptFileError, copy, f"the weights in {copy} cannot be read: ")


def test_a_folder_that_cannot_be_made_is_a_storage_error(original, tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(StorageError, match=r"cannot write the classifier to .*file/net"):
    save_classifier(tmp_path / "file" / "net", "cnn-tiny", original[1], num_classes=5)


def test_models_are_listed_and_made_by_name():
  assert {"resnet20", "resnet56"} <= set(list_models("resnet*")) and "cnn-a" not in list_models("resnet*")
  assert make_model("resnet20", num_classes=7).num_classes == 7
  with pytest.raises(UnknownNameError, match=r"unknown model 'resnet21'; did you mean .*'resnet20'"):
    make_model("resnet21")


@pytest.mark.parametrize("name", ["cnn-a", "cnn-tiny", "resnet20"])
def test_registered_models_take_their_own_input_size(name):
  spec, module = MODELS[name], make_model(name, 6)
  image = jax.ShapeDtypeStruct((2, *spec.input_size), jnp.float32)
  logits = jax.eval_shape(lambda x: module.init_with_output(jax.random.key(0), x)[0], image)
  assert logits.shape == (2, 6) and len(spec.mean) == len(spec.std) == spec.input_size[-1] and spec.description


@pytest.mark.parametrize(
  "change", [{"num_classes": -3}, {"num_classes": 10**12}, {"num_classes": True}, {"mean": [0.5] * 7}, {"std": [1, 1]}]
)
def test_metadata_with_impossible_numbers_is_refused(copy, change):
  edit(copy, **change)
  refused(CorruptFileError, copy, f"not a classifier's metadata.*{next(iter(change))}")


def test_what_is_said_of_a_long_value_is_short(copy):
  edit(copy, num_classes="x" * 10**5)
  with pytest.raises(CorruptFileError, match=r"not a classifier's metadata.*num_classes is") as error:
    load_classifier(copy)
  assert len(str(error.value)) < 2000 and "\n" not in str(error.value)


def test_metadata_without_end_and_names_without_end_are_refused(copy):
  (copy / "classifier.json").write_text("[" * 200_000)
  refused(CorruptFileError, copy, "nested too deeply")
  refused(JaxrobustError, "x" * 5000, "File name too long")
