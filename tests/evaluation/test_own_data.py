"""Folders at the classifier's size, with class names in the pictures of a cell; counts that do not fit are refused."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import jaxrobust as jr
from jaxrobust.core.errors import InputError
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.report.pictures import read_pictures
from jaxrobust.results.folder import open_folder


def test_a_folder_at_the_size_of_the_classifier_shows_the_names_of_its_classes(tmp_path):
  for name, level in (("dark", 100), ("light", 140)):
    (tmp_path / "set" / name).mkdir(parents=True)
    Image.fromarray(np.full((9, 11, 3), level, np.uint8)).save(tmp_path / "set" / name / "1.png")
  classifier = jr.Classifier.from_function(
    lambda x: np.array([-1.0, 1.0]) * (x.mean((1, 2, 3))[:, None] - 0.47), 2, input_shape=(4, 4, 3), name="brightness"
  )
  data, out = f"folder:{tmp_path / 'set'}", tmp_path / "out"
  report = jr.evaluate(classifier, data, eps="64/255", out=out, options=RunOptions(quiet=True, save_images=2))
  assert report.accuracies()["clean"] == 1.0
  (file, *_) = sorted(out.rglob("*.images.npz"))
  pictures = read_pictures(open_folder(out), str(file.relative_to(out)), file.stat().st_size)
  assert [(p["label_name"], p["prediction_name"]) for p in pictures] == [("dark", "light"), ("light", "dark")]
  wider = jr.Classifier.from_function(lambda x: x.mean((1, 2))[:, :3], 3, input_shape=(4, 4, 3))
  with pytest.raises(InputError, match=r"of 2 classes, the classifier has 3: list all of them .*classes\.txt"):
    jr.evaluate(wider, data)
