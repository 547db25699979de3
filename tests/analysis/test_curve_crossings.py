"""Where the curves of two models cross, from the summaries of a suite."""

import json

import pytest

from jaxrobust.analysis.curve_crossings import find_crossings
from jaxrobust.core.errors import InputError
from tests.cli.calling import call


def write(folder, model, y, name="budget: linf-bim", n=100):
  curve = {"unit": "linf", "x": [0.0, 0.05, 0.1], "y": y}
  about = {"suite": "ares", "model": model, "data": "cifar10", "n": n, "seed": 0, "metrics": {}}
  success = {"budget, success rate: linf-bim": {**curve, "y": [1 - v for v in y]}}
  (folder / model).mkdir(exist_ok=True)
  path = folder / model / f"ares@cifar10.n{n}.seed0.summary.json"
  path.write_text(json.dumps({**about, "curves": {name: curve, **success}}))


def test_a_crossing_says_who_is_the_more_robust_on_which_side(tmp_path):
  """As TRADES is above PGD-AT at small budgets and below it at large ones in the paper."""
  write(tmp_path, "pgd-at", [0.87, 0.30, 0.10])
  write(tmp_path, "trades", [0.85, 0.35, 0.05])
  write(tmp_path, "plain", [0.95, 0.0, 0.0])
  write(tmp_path, "other-n", [0.0, 0.5, 1.0], n=50)
  found = find_crossings(tmp_path)
  pairs = [(one.below, one.above, round(one.at, 4)) for one in found]
  assert ("pgd-at", "trades", 0.0143) in pairs and ("trades", "pgd-at", 0.075) in pairs
  assert ("plain", "trades", 0.0111) in pairs and not any("other-n" in pair for pair in pairs)
  code, out, err = call("results", "crossings", "--root", tmp_path)
  assert code == 0 and "trades" in out and "0.075" in out, err
  with pytest.raises(InputError, match="holds no summaries"):
    find_crossings(tmp_path / "nothing") if (tmp_path / "nothing").mkdir() is None else None
