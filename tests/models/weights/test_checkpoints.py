"""Checkpoints of timm, torchvision and RobustBench as people have them: equal logits, or refused with the remedy.

`tests/golden/make_checkpoints.py` writes them into the folder that $JAXROBUST_CHECKPOINTS names.
"""

from __future__ import annotations

import json
import os
import pathlib
import re

import pytest

from jaxrobust.cli.main import main

FOLDER = pathlib.Path(os.environ.get("JAXROBUST_CHECKPOINTS", "nowhere"))
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
  "name", NAMES or [pytest.param("", marks=pytest.mark.skip("JAXROBUST_CHECKPOINTS is not set"))]
)
def test_checkpoints_are_converted_or_refused_with_the_remedy(name, tmp_path, capsys):
  about = json.loads((FOLDER / f"{name}.json").read_text())
  words = ["convert", str(FOLDER / f"{name}.pth"), f"--arch={about['arch']}", f"--out={tmp_path / 'net'}"]
  words += about["arguments"]
  if about["refused"]:
    assert main(words) == 2 and about["refused"] in capsys.readouterr().err
    return
  # The stored logits are those of images as they are, but where the file has a normalization of its own.
  channels = [] if about.get("normalized") else ["--mean=0", "--std=1"]
  assert main([*words, *channels, f"--check={FOLDER / f'{name}.npz'}"]) == 0
  output = capsys.readouterr().out
  distance = float(re.search(r"to (\S+) of their spread", output)[1])
  print(output)
  assert distance <= 1e-5
