"""Example images of a cell as pictures a page can hold: clean, adversarial, their difference made visible.

And what a threat measures instead of the difference, where it has a picture of that: flows, tables of colors.
"""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
from PIL import Image

from jaxrobust.core.reading import read_npz
from jaxrobust.results.folder import Folder

LARGEST_FILE = 64 * 2**20
MOST = 8
LARGEST_SIDE = 512
LONGEST_NAME = 80
NAMES = ("label_name", "prediction_name")


def read_pictures(folder: Folder, path: str, size: int) -> list[dict[str, Any]]:
  """Returns the pictures in an images file; none where it is damaged: a picture decorates, it decides nothing."""
  raw = folder.read([path])[0] if size <= LARGEST_FILE else None
  if not isinstance(raw, bytes):
    return []
  try:
    file = read_npz(raw, "damaged pictures")
    arrays = {name: file[name] for name in ("clean", "adversarial", "label", "prediction")}
    pictures = [_picture(*row) for row in zip(*(arrays[name][:MOST] for name in arrays), strict=True)]
    for name in NAMES:
      for picture, text in zip(pictures, file.get(name, ()), strict=False):
        picture[name] = str(text)[:LONGEST_NAME]
    for picture, distance in zip(pictures, file.get("distance", ()), strict=False):
      picture["distance"] = float(distance) if np.isfinite(distance) else None
    for picture, witness in zip(pictures, file.get("witness", ()), strict=False):
      picture["witness"] = as_png(witness)
    return pictures
  except Exception:  # A damaged zip or npy header can raise nearly anything.
    return []


def _picture(clean: np.ndarray, adversarial: np.ndarray, label: Any, prediction: Any) -> dict[str, Any]:
  if clean.dtype != np.uint8 or adversarial.dtype != np.uint8 or clean.shape != adversarial.shape:
    raise ValueError("not two pictures of one size")
  difference, factor = amplify(clean, adversarial)
  return {
    "label": int(label),
    "prediction": int(prediction),
    "clean": as_png(clean),
    "adversarial": as_png(adversarial),
    "difference": as_png(difference),
    "factor": factor,
  }


def amplify(clean: np.ndarray, adversarial: np.ndarray) -> tuple[np.ndarray, int]:
  """Returns the perturbation around mid-gray, times the largest whole factor that clips nothing.

  >>> gray, factor = amplify(np.full((1, 2, 3), 100, np.uint8), np.array([[[108] * 3, [92] * 3]], np.uint8))
  >>> gray[0, :, 0].tolist(), factor
  ([247, 7], 15)
  """
  change = adversarial.astype(int) - clean.astype(int)
  factor = max(1, 127 // max(1, int(np.abs(change).max())))
  return np.clip(127 + factor * change, 0, 255).astype(np.uint8), factor


def as_png(image: np.ndarray) -> str:
  """Returns a data address with the picture in it, every pixel as it is."""
  if image.ndim != 3 or image.shape[2] not in (1, 3) or max(image.shape) > LARGEST_SIDE:
    raise ValueError("not a picture")
  picture = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
  buffer = io.BytesIO()
  picture.save(buffer, "PNG", optimize=True)
  return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
