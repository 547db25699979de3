"""Numbers of data sets with a protocol of their own, by hand: ImageNet-A, ObjectNet, -ReaL, -O, on miniatures."""

from __future__ import annotations

import json

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.data import load_data
from jaxrobust.data.imagenet import wnids
from jaxrobust.engine.options import EngineOptions
from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.metrics.outliers import average_precision
from jaxrobust.evaluation.suites import attack_entry, clean_entry, targeted
from tests.data.miniatures import picture

OPTIONS = RunOptions(EngineOptions.for_platform(16), quiet=True)


def _logits(images):
  """Red says the class that wins, green the second: gray levels are class numbers."""
  red, green = (255 * images[:, 0, 0, channel] for channel in (0, 1))
  classes = jnp.arange(1000.0)
  near = lambda level: jnp.exp(-((classes - level[:, None]) ** 2))
  return 2 * near(red) + near(green)


COLORS = Classifier.from_function(_logits, 1000, name="colors", input_shape=(8, 8, 3))


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
  monkeypatch.setenv("JAXROBUST_DATASETS", str(tmp_path))
  return tmp_path


def cell(data, entry=None):
  report = evaluate(COLORS, data, [entry or clean_entry()], options=OPTIONS)
  return report.results[0]


def test_imagenet_a_is_judged_among_its_own_classes_and_among_all_by_name(root):
  # 1,000-way class 50 wins, which is none of the set's; of its own classes the label is the most likely.
  for number, label in enumerate((6, 11, 13, 6)):
    picture(root / "imagenet-a" / wnids()[label] / f"{number}.png", (8, 8), (50, label, 0))
  own, every = cell("imagenet-a"), cell("imagenet-a:1000")
  assert own.summary["accuracy"] == 1 and every.summary["accuracy"] == 0
  assert own.examples["prediction"].tolist() == own.examples["label"].tolist() == [6, 6, 11, 13]
  assert every.examples["prediction"].tolist() == [50] * 4
  assert own.config["judging"] == "among 3 of the classes" and "judging" not in every.config
  attacked = cell("imagenet-a", targeted(attack_entry("fgsm", "8/255"))).examples
  assert set(attacked["label"]) == {6, 11, 13}


def test_an_object_of_several_classes_is_right_by_any_of_them(root):
  folder = root / "objectnet-1.0"
  for name, color in (("alarm_clock", (30, 0, 0)), ("banana", (40, 0, 0)), ("air_freshener", (1, 1, 1))):
    for number in range(2):
      picture(folder / "images" / name / f"{number}.png", (12, 12), color)
  maps = folder / "mappings"
  maps.mkdir()
  names = {"alarm_clock": "Alarm clock", "banana": "Banana", "air_freshener": "Air freshener"}
  classes = {"Alarm clock": "analog clock; digital clock", "Banana": "banana"}
  (maps / "folder_to_objectnet_label.json").write_text(json.dumps(names))
  (maps / "objectnet_to_imagenet_1k.json").write_text(json.dumps(classes))
  (maps / "imagenet_to_label_2012_v2").write_text("analog clock\ndigital clock\nbanana\n")
  (maps / "pytorch_to_imagenet_2012_id.json").write_text(json.dumps({"20": 0, "30": 1, "40": 2}))
  found = cell("objectnet")
  # The digital clock, 30, is the second class of its object.
  assert found.summary["accuracy"] == 1 and found.examples["label"].tolist() == [20, 20, 40, 40]
  single = cell("objectnet:1000")
  assert single.cell.n == 2 and single.examples["label"].tolist() == [40, 40]


def test_a_network_of_89_percent_has_at_least_that_with_reassessed_labels(root):
  """Half of the images have their true class second in the list; one has none at all."""
  labels = np.arange(100)
  for number, label in enumerate(labels):
    said = label if number < 89 else (label + 3) % 100
    file = root / "imagenet" / "val" / wnids()[label] / f"ILSVRC2012_val_{number + 1:08}.png"
    picture(file, (8, 8), (int(said), 0, 0))
  lists = [[int(label)] if number % 2 else [(int(label) + 500), int(label)] for number, label in enumerate(labels)]
  (root / "imagenet" / "real.json").write_text(json.dumps(lists))
  assert cell("imagenet").summary["accuracy"] == 0.89
  real = cell("imagenet-real")
  assert real.summary["accuracy"] == real.summary["robust_accuracy"] == 0.89
  assert real.config["judging"] == "any of several right classes"
  half = cell("imagenet-real@40")
  assert half.examples["correct"].sum() == (half.examples["prediction"] == half.examples["label"] % 500).sum()
  with pytest.raises(InputError, match="any of several right classes: it has a clean accuracy"):
    cell("imagenet-real", attack_entry("fgsm", "8/255"))


def test_outliers_are_told_apart_from_validation_images_of_their_own_classes(root):
  """One outlier for five inliers of each class, as 2,000 for 10,000: equal scores give the base rate 1/6."""
  for label in (6, 11, 13):
    picture(root / "imagenet-o" / wnids()[label] / "o.png", (8, 8), (200, 200, 0))
    for number in range(5):
      picture(root / "imagenet" / "val" / wnids()[label] / f"ILSVRC2012_val_{label}{number}.png", (8, 8), (200, 200, 0))
  for number in range(60):  # Other classes of the validation set are no inliers.
    picture(root / "imagenet" / "val" / wnids()[100] / f"ILSVRC2012_val_9{number}.png", (8, 8), (100, 0, 0))
  inlier, outlier = cell("imagenet-o-inliers"), cell("imagenet-o")
  assert (inlier.cell.n, outlier.cell.n) == (15, 3) and "outliers" in outlier.config["judging"]
  # No class of the three is seen: the confidence among them is 1/3, where it would be about one half among all.
  np.testing.assert_allclose(outlier.examples["confidence"], 1 / 3, atol=1e-6)
  scores = [-one.examples["confidence"] for one in (inlier, outlier)]
  assert average_precision(*scores) == pytest.approx(1 / 6)
  assert average_precision(np.zeros(10_000), np.zeros(2_000)) == pytest.approx(0.1667, abs=1e-4)


def test_subsets_are_those_of_the_whole_sets_protocol(root):
  for number in range(4):
    for label in (6, 11, 13):
      picture(root / "imagenet-a" / wnids()[label] / f"{number}.png", (8, 8), (50, label, 0))
  assert cell("imagenet-a@2").config["judging"] == "among 3 of the classes"
  assert load_data("imagenet-a").subset(2).judging.choices == ((6,), (11,), (13,))
