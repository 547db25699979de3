"""ARES-Bench's frequency bias on real photographs, judged by EfficientNet-Lite0, through the suite itself."""

import shutil

import pytest

from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.suites.summary import summarize_suite
from tests import realdata


@realdata.needs_data
@pytest.mark.data
@pytest.mark.slow
def test_the_frequency_bias_of_lite0_is_in_the_range_of_the_paper(tmp_path, monkeypatch):
  """Table 8 of arXiv:2302.14301 has 24.9 to 32.1 for its normally trained networks."""
  for picture in sorted((realdata.ROOT / "imagenet_samples").glob("*.JPEG")):
    folder = tmp_path / "data" / "imagenet" / "val" / picture.name.split("_")[1]
    folder.mkdir(parents=True)
    shutil.copy(picture, folder / picture.name)
  monkeypatch.setenv("JAXROBUST_DATASETS", str(tmp_path / "data"))
  realdata.lite0(tmp_path / "net")
  report = evaluate(
    tmp_path / "net",
    "imagenet",
    "ares-bench",
    only="imagenet/c*/none",
    out=tmp_path / "out",
    options=RunOptions(quiet=True),
  )
  summary = summarize_suite(report)
  print(summary["metrics"], summary["curves"]["low-pass"])
  assert summary["metrics"]["accuracy"]["value"] >= 0.85 and summary["metrics"]["accuracy"]["n"] == 100
  assert 29 <= summary["metrics"]["frequency bias"] <= 33
  assert summary["curves"]["low-pass"]["x"] == list(range(2, 113, 2)) and summary["curves"]["low-pass"]["y"][-1] == 1
  assert summary["metrics"]["Avg."] is None, "nine data sets are missing"
