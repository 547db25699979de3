"""Real photographs through every decoder and resize, judged by EfficientNet-Lite0."""

import jax
import numpy as np
import pytest

from jaxrobust.data.encoded import EncodedSource
from jaxrobust.data.stores import FolderStore
from jaxrobust.evaluation.metrics.stability import negative_standard_deviation
from jaxrobust.evaluation.system_noise import grid
from jaxrobust.noises import system
from tests import realdata


@realdata.needs_data
@pytest.mark.data
@pytest.mark.slow
def test_lite0_over_the_whole_grid(tmp_path):
  classifier, run = realdata.lite0(tmp_path / "net"), jax.jit(lambda c, x: c(x).argmax(-1))
  store = FolderStore(realdata.ROOT / "imagenet_samples")
  labels = np.array([int(name.split("_")[0]) for name in store.names])
  source = EncodedSource("samples", store, store.names, labels, 1000)
  accuracies = {}
  for cell in grid(source):
    hits = [
      np.asarray(run(classifier, cell.take(ids)[0])) == labels[ids] for ids in np.split(np.arange(len(labels)), 5)
    ]
    accuracies[cell.condition] = float(np.mean(hits))
    print(cell.condition, accuracies[cell.condition])
  nsd = negative_standard_deviation(np.array(list(accuracies.values())))
  print("NSD", nsd, "without", system.missing())
  assert accuracies["system-pil-pil-bilinear"] >= 0.85
  # Nearest-neighbor sampling aliases and costs the most; everything else is close to the default.
  smooth = [value for name, value in accuracies.items() if "nearest" not in name]
  assert max(smooth) - min(smooth) <= 0.1 and -0.1 < nsd < 0
