"""Random crops of whole pictures, cut while they are decoded."""

import io

import numpy as np
import pytest
from PIL import Image

from jaxrobust.core.errors import InputError
from jaxrobust.data import load_data
from jaxrobust.data.crops import Crop, crop_box, cropped
from tests.data.miniatures import A, B, picture


def test_boxes_have_the_areas_and_aspects_asked_for():
  boxes = np.array([crop_box(Crop(), 500, 375, 1, example, 9) for example in range(400)])
  across, down = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
  assert (boxes[:, :2] >= 0).all() and (boxes[:, 2] <= 500).all() and (boxes[:, 3] <= 375).all()
  share, ratio = across * down / (500 * 375), across / down
  assert 0.07 < share.min() < 0.12 and 0.9 < share.max() <= 1.0 and abs(share.mean() - 0.45) < 0.06, (
    "large areas often do not fit"
  )
  assert 0.73 < ratio.min() < 0.8 and 1.25 < ratio.max() < 1.36
  assert crop_box(Crop(), 500, 375, 1, 5, 9) == tuple(boxes[5]) != crop_box(Crop(), 500, 375, 1, 5, 10)
  # A strip that no aspect fits into: the middle of it.
  assert crop_box(Crop(), 1000, 30, 0, 0, 0) == (480, 0, 520, 30)


def test_a_crop_shows_the_picture_at_the_resolution_it_has():
  # Stripes of two pixels: gone where a small crop is taken from a shrunken picture, kept where from the whole.
  x = np.arange(1200) // 2 % 2 * 255
  stripes = np.broadcast_to(x[None, :, None], (1200, 1200, 3)).astype(np.uint8)
  file = io.BytesIO()
  Image.fromarray(stripes).save(file, "PNG")
  small = cropped(file.getvalue(), Crop(0.03, 0.03, 1.0), 208, 0, 0, 0)
  assert small.shape == (208, 208, 3) and small.std() > 100
  jpeg = io.BytesIO()
  Image.fromarray(np.full((1200, 1200, 3), 90, np.uint8)).save(jpeg, "JPEG")
  assert abs(int(cropped(jpeg.getvalue(), Crop(), 64, 0, 0, 0).mean()) - 90) <= 1


def test_sources_of_pictures_have_crops_of_the_size_of_the_network(root):
  for number in range(4):
    picture(root / "imagenet" / "train" / (A, B)[number % 2] / f"{number}.JPEG", (300, 200))
  source = load_data("imagenet-train@3", preprocess="resize272-crop240")
  images, labels = source.crops(np.arange(3), Crop(), 0, 5)
  assert images.shape == (3, 240, 240, 3) and images.dtype == np.uint8
  np.testing.assert_array_equal(labels, source.take(np.arange(3))[1])
  np.testing.assert_array_equal(images[1:2], source.crops(np.array([1]), Crop(), 0, 5)[0])
  with pytest.raises(InputError, match="it has no random crops"):
    load_data("imagenet-train", preprocess="none").crops(np.arange(1), Crop(), 0, 0)
