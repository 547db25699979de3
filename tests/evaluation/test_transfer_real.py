"""Transfer attacks on published CIFAR-10 networks: whether they beat BIM by transfer."""

from __future__ import annotations

import pytest

from jaxrobust.data.source import ArraySource
from jaxrobust.evaluation.context import ModelContext
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.suites import attack_entry
from jaxrobust.evaluation.transfer import run_transfer
from tests import realdata


@realdata.needs_data
@pytest.mark.slow
@pytest.mark.data
def test_momentum_views_and_tuning_transfer_better_than_bim_between_resnets(tmp_path):
  data = ArraySource("cifar10", *realdata.cifar10_test(100), 10)
  source, target = ({name: ModelContext(realdata.cifar10_network(name))} for name in ("resnet20", "resnet56"))
  fooled = {}
  for name, parameters in {"bim": {}, "mim": {}, "dim": {}, "vmi-fgsm": {"neighbors": 10}}.items():
    entry = attack_entry(name, "8/255", step_size=0.15, **parameters)
    found = run_transfer(source, data, entry, tmp_path, RunOptions(quiet=True), targets=target)
    examples = found["resnet20", "resnet56", "8/255"].examples
    fooled[name] = 1 - examples["robust"].sum() / examples["correct"].sum()
  assert min(fooled["mim"], fooled["dim"]) > fooled["bim"], fooled
  assert fooled["vmi-fgsm"] > fooled["bim"] + 0.05, fooled
