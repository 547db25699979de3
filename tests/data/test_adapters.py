"""Examples as other libraries hold them become sources; what cannot be told apart is refused in one line."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pytest
from PIL import Image

from jaxrobust.core.errors import InputError
from jaxrobust.data.adapters import adapted

LEVELS = np.arange(6 * 4 * 5 * 3, dtype=np.uint8).reshape(6, 4, 5, 3)
LABELS = np.array([0, 1, 2, 0, 1, 2])


class Tensor:
  """What a tensor of PyTorch offers."""

  def __init__(self, array):
    self.array = array

  def detach(self):
    return self

  def cpu(self):
    return self.array


class Rows:
  """A data set of PyTorch: rows by number, of pictures (C, H, W), and the names of its classes."""

  classes = ("cat", "dog", "eel")

  def __len__(self):
    return len(LEVELS)

  def __getitem__(self, i):
    return Tensor(np.moveaxis(np.tile(LEVELS[i], (1, 2, 1)), -1, 0)), int(LABELS[i])


class Loader:
  """A loader of PyTorch over it."""

  dataset = Rows()

  def __iter__(self):
    for start in (0, 4):
      ids = range(start, min(start + 4, 6))
      images, labels = zip(*(self.dataset[i] for i in ids), strict=True)
      yield [Tensor(np.stack([image.array for image in images])), Tensor(np.array(labels))]


class Feature:
  names = ("cat", "dog", "eel")


class HuggingFace:
  """A data set of Hugging Face: rows are mappings with pictures, features say the names of classes."""

  features = MappingProxyType({"img": object(), "label": Feature()})

  def __len__(self):
    return len(LEVELS)

  def __getitem__(self, i):
    return {"img": Image.fromarray(LEVELS[i]), "label": int(LABELS[i])}

  def __iter__(self):
    return (self[i] for i in range(len(self)))


class TensorFlow:
  """A data set of tf.data."""

  def __iter__(self):
    raise AssertionError("tensors of TensorFlow are asked for as arrays")

  def as_numpy_iterator(self):
    return iter([(LEVELS[:4], LABELS[:4]), (LEVELS[4:], LABELS[4:])])


@pytest.mark.parametrize(
  "data",
  [
    (LEVELS, LABELS),
    {"image": LEVELS, "label": LABELS},
    (LEVELS / np.float64(255), LABELS),
    (LEVELS, LABELS[:, None]),
    HuggingFace(),
    TensorFlow(),
    iter([(LEVELS[i], LABELS[i]) for i in range(6)]),
    [{"image": LEVELS[i], "label": LABELS[i]} for i in range(6)],
  ],
  ids=["uint8", "mapping", "floats", "column", "hugging-face", "tf.data", "iterator", "list-of-rows"],
)
def test_every_way_to_hold_examples_gives_the_same_source(data):
  source = adapted(data, 3)
  images, labels = source.take(np.arange(6))
  np.testing.assert_allclose(images, LEVELS / np.float32(255), atol=1e-6)
  np.testing.assert_array_equal(labels, LABELS)


@pytest.mark.parametrize("data", [Rows(), Loader()], ids=["dataset", "loader"])
def test_channels_of_pytorch_go_last_and_class_names_come_along(data):
  source = adapted(data, 3)
  np.testing.assert_array_equal(source.images, np.tile(LEVELS, (1, 1, 2, 1)))
  assert source.class_names == ("cat", "dog", "eel") and adapted(data, 4).class_names is None


def test_no_more_is_read_than_was_asked_for():
  def endless():
    while True:
      yield LEVELS, LABELS

  assert adapted(endless(), 3, n=9).labels.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
  ("data", "reason"),
  [
    (5, "the data is a int; pass a name"),
    ([], "the list holds no examples"),
    ([LEVELS[0]], "an example is a ndarray; pass a name"),
    ([{"picture": 1}], "no images and labels among picture"),
    ([(LEVELS[0], 0), (LEVELS[0, :2], 0)], "images have different shapes"),
    ((LEVELS.astype(np.float32), LABELS), "divide by 255"),
    ((LEVELS, LABELS + 1), "labels range from 1 to 3; expected 0 to 2"),
    ((np.moveaxis(np.tile(LEVELS, (1, 2, 2, 1)), -1, 1), LABELS), "looks like"),
  ],
)
def test_what_cannot_be_told_apart_is_refused(data, reason):
  with pytest.raises(InputError, match=reason):
    adapted(data, 3)
