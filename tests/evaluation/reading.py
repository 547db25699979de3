"""Run by test_memory in processes of its own: clean and corrupted cells over N encoded pictures; prints the peak in MB.

The N examples are the same few files read again and again, so the disk holds a handful and the reader N.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from jaxrobust.core.compilation import enable_compilation_cache

FILES = 50


def main(folder: str, count: int) -> None:
  enable_compilation_cache()
  from jaxrobust.core.classifier import Classifier
  from jaxrobust.data.encoded import EncodedSource
  from jaxrobust.data.stores import FolderStore
  from jaxrobust.engine.options import EngineOptions
  from jaxrobust.evaluation.conditions import under
  from jaxrobust.evaluation.evaluate import evaluate
  from jaxrobust.evaluation.job import RunOptions

  rng = np.random.default_rng(0)
  pictures = Path(folder, "pictures")
  pictures.mkdir(parents=True)
  for number in range(FILES):
    Image.fromarray(rng.integers(0, 256, (32, 32, 3), np.uint8)).save(pictures / f"{number:02}.png")
  store = FolderStore(pictures)
  files, labels = [store.names[i % FILES] for i in range(count)], np.arange(count) % 2
  data = EncodedSource("read", store, files, labels, num_classes=2, preprocessing="none")
  classifier = Classifier.from_function(lambda images: images.mean((1, 2))[:, :2], num_classes=2)
  options = RunOptions(EngineOptions.for_platform(32), quiet=True)
  for source in (data, under(data, "fog-3")):
    evaluate(classifier, source, "clean", name="fixture", out=Path(folder, "out"), options=options)
  print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


if __name__ == "__main__":
  main(sys.argv[1], int(sys.argv[2]))
