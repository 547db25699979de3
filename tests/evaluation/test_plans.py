"""What each suite asks for on ImageNet, line by line as its paper has it: the texts in tests/golden/suites.

Sources of the numbers, by suite (section, table or appendix of the paper):
  robustart   F.3: l1 100/400/1600, l2 0.5/2/8, linf 0.5/2/8 over 255; PGD and MIM 20 steps of 3/40 eps; DDN 10 steps;
              C&W 5 searches of 100 steps of 0.001. E.4.2: AUPR over ImageNet-O's 200 classes. E.3.3: 3 decoders, 11
              resizes.
  ares        section 5: 1,000 random images, linf 16/255 and normalized l2 √0.001. B: 20 steps of 0.15 eps, DeepFool
              100, C&W 100 iterations, 10 and 20 for the strength curve; 20,000 queries.
  ares-bench  4.2: 1,000 random images. A: linf 4/255 in steps of 1/255, l2 0.5 in steps of 1.0, PGD-100. Table 1: ten
              sets.
  oodrb       3: linf 4/255; unforeseen linf 8/255, l2 1, PPGD and LPA 0.5, StAdv 0.05, ReColor 0.06. B.1: 5,000 images.
  unforeseen  eight attacks at three distortions, by the authors' scripts (models.sh, *.conf, imagenet_config.py).
  nas-cell    3.2: FGSM at 11 budgets, PGD-40, APGD and Square at 7.
  transfer-…  ares: B, 10 steps of 0.15 eps; robustart: figures 3, 16, 17; ares-bench: A, 20 steps, linf 8/255, DIM 0.7,
              TIM 15 and 3, 5 scales, 10 samples and beta 1.5.
  ares-defenses: those of ares. No paper has audit, basic, cascade, clean, main and sensitivity.
"""

from __future__ import annotations

import pathlib

import pytest

from jaxrobust.evaluation.suites.suite import SUITES
from jaxrobust.evaluation.transfer_suites import TRANSFER_SUITES
from tests.cli.calling import call

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "suites"


@pytest.mark.smoke
@pytest.mark.parametrize("name", sorted([*SUITES, *(f"transfer-{name}" for name in TRANSFER_SUITES)]))
def test_a_dry_run_prints_the_numbers_of_the_paper(name, monkeypatch):
  monkeypatch.delenv("JAXROBUST_DATASETS", raising=False)
  command, suite = ("transfer", name.removeprefix("transfer-")) if "transfer-" in name else ("evaluate", name)
  code, out, err = call(command, "--suite", suite, "--data", "imagenet", "--dry_run")
  assert (code, err) == (0, "") and out == (GOLDEN / f"{name}.txt").read_text()


@pytest.mark.smoke
def test_a_dry_run_follows_its_options():
  words = ("evaluate", "--suite=ares-bench", "--data=imagenet@200", "--dry_run", "--only=imagenet*/clean/*fgsm*")
  assert "200 of 50000 examples" in call(*words)[1] and "pgd" not in call(*words)[1]
  assert "resize272-crop240 " not in call(*words, "--preprocess=resize272-crop240")[1]
  assert "preprocessing: resize272-crop240\n" in call(*words, "--preprocess=resize272-crop240")[1]
  words = ("evaluate", "--suite=ares-defenses,queries=700", "--data=cifar10", "--dry_run")
  assert "oblivious" not in call(*words)[1] and "nes-700" in call(*words)[1]
  assert "\nnaive: " in call(*words, "--defense=jpeg")[1]
  alone = call(*words, "--defense=ensemble,members=absent")[1]
  assert "\ntransfer: " in alone and "\nnaive: " not in alone
