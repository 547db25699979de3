"""Writes corruptions.npz: what PyPI's `imagecorruptions` and `imagenet-c` make of two drawn images.

  python make_corruptions.py corruptions.npz      # under a Python that has both, OpenCV, scikit-image and Wand

Deterministic corruptions are stored as images, random ones as (mean, variance, PSNR) averaged over repetitions.
Needs no jaxrobust. The peers are patched from outside where today's numpy, scipy and scikit-image have moved on.
"""

import pathlib
import sys

import numpy as np

# The worker of the bench knows what the peers miss; it needs no jaxrobust either.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "jaxrobust" / "bench"))
from corruption_worker import patch

# Enough for averages that repeat to about one percent.
REPEATS = {"fog": 150, "frost": 150, "elastic_transform": 60, "motion_blur": 60, "snow": 30, "glass_blur": 3}
DETERMINISTIC = (
  "defocus_blur",
  "zoom_blur",
  "gaussian_blur",
  "brightness",
  "contrast",
  "pixelate",
  "jpeg_compression",
  "saturate",
)
RANDOM = (
  "gaussian_noise",
  "shot_noise",
  "impulse_noise",
  "speckle_noise",
  "glass_blur",
  "motion_blur",
  "snow",
  "fog",
  "frost",
  "spatter",
)


def drawing(height, width, seed=0):
  """Soft shapes, edges, texture and pure colors: what natural images have, made of formulas."""
  y, x = np.mgrid[0:height, 0:width] / max(height, width)
  rng = np.random.RandomState(seed)
  image = np.stack([0.5 + 0.4 * np.sin(7 * x + 3 * y), 0.4 + 0.4 * np.cos(9 * y - 2 * x), 0.6 - 0.5 * x * y], -1)
  for _ in range(14):
    cx, cy, r = rng.rand(3) * (1, 1, 0.18)
    image[(x - cx) ** 2 + (y - cy) ** 2 < r * r] = rng.rand(3)
  image += 0.06 * np.sin(150 * x * y)[..., None] + 0.02 * rng.randn(height, width, 1)
  return np.uint8(np.clip(image, 0, 1) * 255)


def statistics(image, corrupt, repeats):
  rows = []
  for _ in range(repeats):
    result = np.float64(np.uint8(corrupt())) / 255
    error = ((result - image / 255.0) ** 2).mean()
    rows.append((result.mean(), result.var(), -10 * np.log10(error)))
  return np.mean(rows, 0)


def table(image, corrupt, repeats):
  return np.stack([statistics(image, lambda s=s: corrupt(s), repeats) for s in range(1, 6)]).astype(np.float32)


ANGLES = (-45.0, -20.0, 0.0, 28.1)


def magick(image, radius, sigma, angle):
  """ImageMagick's own motion blur, which imagenet-c calls."""
  import ctypes
  import io

  from PIL import Image
  from wand.api import library
  from wand.image import Image as Wand

  library.MagickMotionBlurImage.argtypes = (ctypes.c_void_p, ctypes.c_double, ctypes.c_double, ctypes.c_double)
  file = io.BytesIO()
  Image.fromarray(image).save(file, "PNG")
  picture = Wand(blob=file.getvalue())
  library.MagickMotionBlurImage(picture.wand, radius, sigma, angle)
  return np.asarray(Image.open(io.BytesIO(picture.make_blob("png"))).convert("RGB"))


def main(path):
  patch()
  np.fromstring = lambda data, dtype: np.frombuffer(data, dtype)
  import imagecorruptions
  from imagenet_c import corruptions as original
  from PIL import Image

  np.random.seed(0)
  small, large = drawing(48, 64), drawing(224, 224)
  entries = {"small": small}
  for name in DETERMINISTIC:
    entries[f"image/{name}"] = np.stack([imagecorruptions.corrupt(small, s, name) for s in range(1, 6)])
  for name in RANDOM:
    corrupt = lambda s, name=name: imagecorruptions.corrupt(large, s, name)
    entries[f"statistics/{name}"] = table(large, corrupt, REPEATS.get(name, 10))
  entries["magick/motion_blur"] = np.stack([magick(small, 15, 8, angle) for angle in ANGLES])
  pil = Image.fromarray(large)
  for name in ("elastic_transform", "motion_blur", "snow"):
    corrupt = lambda s, name=name: getattr(original, name)(pil, s)
    entries[f"imagenet_c/{name}"] = table(large, corrupt, REPEATS[name])
  np.savez_compressed(path, **entries)


if __name__ == "__main__":
  main(sys.argv[1])
