"""The JPEG codec on the device against libjpeg, on drawings and on photographs."""

import io

import jax
import numpy as np
import pytest
from PIL import Image

from jaxrobust.noises.jpeg import through_jpeg
from tests.realdata import ROOT, needs_data

pytestmark = pytest.mark.smoke

CODEC = jax.jit(through_jpeg)


def close_share(image, quality):
  """Returns how much of an image is within two gray levels of libjpeg's."""
  file = io.BytesIO()
  Image.fromarray(np.round(image * 255).astype(np.uint8)).save(file, "JPEG", quality=quality)
  with Image.open(file) as picture:
    theirs = np.asarray(picture).astype(np.float32) / 255
  return float((np.abs(np.asarray(CODEC(image, float(quality))) - theirs) * 255 < 2.5).mean())


@pytest.mark.parametrize("shape", [(32, 32), (33, 47), (64, 80)])
def test_smooth_colors(shape):
  y, x = np.mgrid[0 : shape[0], 0 : shape[1]] / 32
  image = np.stack([np.sin(x * y) ** 2, 0.5 + 0.5 * np.cos(3 * x), (x + y) / 8], -1).astype(np.float32)
  image = (np.round(np.clip(image, 0, 1) * 255) / 255).astype(np.float32)
  shares = [close_share(image, quality) for quality in (85, 50, 25, 7)]
  assert min(shares) > 0.97, shares


@needs_data
def test_photographs():
  shares = []
  for path in sorted((ROOT / "imagenet_samples").glob("*.JPEG"))[:8]:
    with Image.open(path) as picture:
      image = np.asarray(picture.convert("RGB").resize((224, 224))).astype(np.float32) / 255
    shares += [close_share(image, quality) for quality in (85, 80, 40, 25, 15, 7)]
  assert min(shares) > 0.97 and np.mean(shares) > 0.995, (min(shares), np.mean(shares))


@pytest.mark.parametrize("quality", [7, 85])
def test_a_flat_image_stays(quality):
  image = np.full((32, 32, 3), 128 / 255, np.float32)
  assert np.abs(np.asarray(CODEC(image, float(quality))) - image).max() < 1.5 / 255
