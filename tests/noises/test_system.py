"""Decoders and resizes: all alike, none identical, and what is missing is said."""

import importlib.util
import io

import numpy as np
import pytest
from PIL import Image

from jaxrobust.core.errors import CorruptFileError, InputError, UnknownNameError
from jaxrobust.data import load_data
from jaxrobust.evaluation.system_noise import grid
from jaxrobust.noises import system


def encoded(kind="JPEG"):
  y, x = np.mgrid[0:90, 0:120]
  levels = np.stack([128 + 100 * np.sin(x / 9), 128 + 100 * np.cos(y / 7), (x + y) % 256], -1).astype(np.uint8)
  file = io.BytesIO()
  Image.fromarray(levels).save(file, kind)
  return file.getvalue()


def test_names():
  assert len(system.DECODERS) == 3 and len(system.RESIZES) == 11
  assert "pil-cubic" in system.RESIZES and "opencv-area" in system.RESIZES
  with pytest.raises(UnknownNameError, match="did you mean 'pil-bilinear'"):
    system.read_image(encoded(), resize="pil-bilinea")


def test_whatever_is_installed_gives_nearly_the_same_image():
  decoders, resizes = system.available()
  assert "pil" in decoders and not set(system.missing()) & set(decoders)
  reference = system.read_image(encoded(), size=64).astype(int)
  for decoder in decoders:
    for resize in resizes:
      image = system.read_image(encoded(), decoder, resize, 64)
      assert image.shape == (64, 64, 3) and image.dtype == np.uint8
      assert np.abs(image - reference).mean() < 25
  assert (system.read_image(encoded(), resize="pil-nearest", size=64) != reference).any()


def test_missing_tools_and_broken_files_are_said():
  if importlib.util.find_spec("cv2") is None:
    with pytest.raises(InputError, match=r"opencv is not installed: pip install 'jaxrobust\[system\]'"):
      system.read_image(encoded(), "opencv")
  with pytest.raises(CorruptFileError, match="pil cannot decode"):
    system.read_image(b"<html>")


def test_grid_over_encoded_digits():
  source = load_data("digits32-s").subset(4)
  cells = grid(source, 32)
  assert len(cells) == len(system.available()[0]) * len(system.available()[1])
  images, labels = cells[0].take(np.array([3, 1]))
  assert images.shape == (2, 32, 32, 3) and images.max() <= 1 and labels.tolist() == source.labels[[3, 1]].tolist()
  assert len({cell.fingerprint() for cell in cells}) == len(cells) and len(cells[0].subset(2)) == 2
