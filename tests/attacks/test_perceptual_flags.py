"""Which images real networks still get right after perceptual attacks: perceptual-advex's flags, and ours."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import jaxrobust as jr
from jaxrobust.models.weights.convert import convert_checkpoint
from jaxrobust.models.zoo import load_classifier
from tests.attacks.last_points import last_points
from tests.realdata import ROOT, cifar10_test, needs_data

# "network attack@bound" -> a flag for each of the first images, by `make_perceptual_flags`.
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "perceptual_flags.json").read_text())
# Where the reference's flags depend on its batch: by ones of 1 and 16 it agrees with itself in 56 of 64.
LEAST = {"recoloradv_delta lpa@0.5": 56 / 64}
NORMALIZATION = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("case", GOLDEN)
def test_flags_are_the_references_at_the_last_point_and_no_weaker_at_the_first(case, tmp_path):
  name, what = case.split()
  kind, _, bound = what.partition("@")
  theirs = np.array([flag == "1" for flag in GOLDEN[case]])
  images, labels = cifar10_test(len(theirs))
  convert_checkpoint(ROOT / "weights" / "recoloradv" / f"{name}.resnet32.pt", "resnet32", tmp_path, **NORMALIZATION)
  model, attack = load_classifier(tmp_path), jr.make_attack(kind)
  noise = np.random.default_rng(0).normal(0, 0.01, images.shape).astype(np.float32)
  starts = images + noise if kind in ("lpa", "ppgd") else None
  last = np.asarray(model(last_points(attack, model, images, labels, float(bound), starts))).argmax(1) == labels
  first = jr.attack_images(attack, model, images, labels, eps=bound, batch_size=16).robust
  print(f"{case}: theirs {theirs.sum()}, last {last.sum()} ({(last == theirs).sum()} equal), first {first.sum()}")
  assert (last == theirs).mean() >= LEAST.get(case, 0.95)
  assert (first & ~theirs).sum() <= 1, "never weaker by more than one example"
