"""Runs under a Python with `imagecorruptions`: reads jobs as JSON lines, answers with seconds per image.

Knows nothing of jaxrobust. Names that numpy, scipy and scikit-image have dropped since are put back first.
"""

import functools
import importlib.metadata
import json
import sys
import time
import types


def patch():
  """Gives the peers the names that have gone since."""
  import numpy as np
  import scipy.ndimage
  import skimage.filters

  np.float_ = np.float64
  legacy = types.ModuleType("scipy.ndimage.interpolation")
  legacy.map_coordinates = scipy.ndimage.map_coordinates
  sys.modules["scipy.ndimage.interpolation"] = legacy
  original = skimage.filters.gaussian

  def gaussian(image, sigma=1, multichannel=None, **options):
    return original(image, sigma, channel_axis=-1 if multichannel else None, **options)

  skimage.filters.gaussian = gaussian


@functools.cache
def load():
  patch()
  import imagecorruptions

  return imagecorruptions


def answer(job):
  import numpy as np

  imagecorruptions = load()
  images = np.load(job["images"])[: job["n"]]
  begin = time.perf_counter()
  for image in images:
    for severity in range(1, 6):
      imagecorruptions.corrupt(image, severity, job["corruption"])
  seconds = time.perf_counter() - begin
  return {
    "seconds": seconds / len(images),
    "peer": "imagecorruptions",
    "version": importlib.metadata.version("imagecorruptions"),
  }


def main():
  for line in sys.stdin:
    try:
      reply = answer(json.loads(line))
    except ImportError as error:
      reply = {"missing": str(error)}
    print(json.dumps(reply), flush=True)


if __name__ == "__main__":
  main()
