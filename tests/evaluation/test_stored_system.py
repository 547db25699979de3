"""The arrays of ImageNet-S, as its generator lays them out."""

import numpy as np
import pytest

from jaxrobust.core.errors import CorruptFileError
from jaxrobust.data import load_data
from jaxrobust.evaluation.conditions import under
from tests.data.miniatures import A, B, picture


def test_stored_arrays_stand_for_the_files(tmp_path, monkeypatch):
  monkeypatch.setenv("JAXROBUST_DATASETS", str(tmp_path))
  names = {A: "ILSVRC2012_val_00000001.JPEG", B: "ILSVRC2012_val_00000002.JPEG"}
  folder = tmp_path / "imagenet-s" / "ffmpeg" / "opencv-cubic"
  folder.mkdir(parents=True)
  for number, (wnid, name) in enumerate(names.items()):
    picture(tmp_path / "imagenet" / "val" / wnid / name)
    array = np.full((224, 224, 3), 50 + number, np.uint8)
    np.save(folder / f"{name}.npy", array.transpose(2, 0, 1) if number else array)
  # Neither FFmpeg nor OpenCV is needed to read them.
  source = under(load_data("imagenet"), "system-ffmpeg-opencv-cubic")
  images, labels = source.take(np.array([1, 0]))
  np.testing.assert_allclose(images.mean((1, 2, 3)) * 255, [51, 50], rtol=1e-5)
  assert images.shape == (2, 224, 224, 3) and labels.tolist() == [281, 0]
  assert source.condition == "system-ffmpeg-opencv-cubic" and len(source.subset(1)) == 1
  decoded = under(load_data("imagenet"), "system-pil-pil-bilinear")
  assert decoded.fingerprint() != source.fingerprint() and abs(float(decoded.take(np.arange(1))[0].mean()) - 0.2) > 0.05
  np.save(folder / f"{names[A]}.npy", np.zeros((224, 224), np.uint8))
  with pytest.raises(CorruptFileError, match="expected uint8"):
    source.take(np.array([0]))
