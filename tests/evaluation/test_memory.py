"""Memory is that of the images in flight, not of the data set."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SLACK_MB = 32  # 9,000 further pictures of 32 x 32 as float32 would be 110 MB.


def peak(folder, count):
  command = [sys.executable, "-m", "tests.evaluation.reading", str(folder), str(count)]
  return int(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()[-1])


@pytest.mark.slow
def test_ten_times_the_images_need_no_more_memory(tmp_path):
  peak(tmp_path / "warm", 100)  # Compiles, which takes more memory than reading programs back.
  few, many = peak(tmp_path / "few", 1000), peak(tmp_path / "many", 10000)
  assert many < few + SLACK_MB, f"{few} MB for 1,000 images, {many} MB for 10,000"
