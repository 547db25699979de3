"""The cascades: pointwise worst case, substitutes for few classes, findings, parity with the authors' code."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust import testing
from jaxrobust.attacks.registry import attack_name, make_attack
from jaxrobust.attacks.schedule import Cascade, Stage
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.data.source import ArraySource
from jaxrobust.engine.api import attack_images
from jaxrobust.engine.options import EngineOptions
from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.suites import attack_entry
from tests.realdata import ROOT, cifar10_network, cifar10_test, fmnist_network, fmnist_test, needs_data, reference_flags

SMALL = {"num_steps": 6, "queries": 20}
OPTIONS = EngineOptions.for_platform(16, shrink=False)


def few_classes(count: int) -> Classifier:
  weights = np.random.default_rng(1).normal(size=(int(np.prod(testing.SHAPE)), count)).astype(np.float32)
  return Classifier.from_function(lambda v, x: x.reshape(len(x), -1) @ v, count, variables=jnp.asarray(weights))


def labeled(classifier: Classifier, count: int = 12) -> tuple[np.ndarray, np.ndarray]:
  images = np.random.default_rng(3).uniform(0.2, 0.8, (count, *testing.SHAPE)).astype(np.float32)
  return images, np.asarray(classifier(jnp.asarray(images))).argmax(1)


@pytest.mark.parametrize("norm, stages", [("linf", 20), ("l2", 20), ("l1", 20)])
def test_standard_has_the_authors_stages(norm, stages):
  cascade = make_attack("autoattack", norm=norm)
  names = [attack_name(stage.attack) for stage in cascade.stages]
  restarts, targets = (5, 5) if norm == "l1" else (1, 9)
  assert names == ["apgd-ce"] * restarts + ["apgd-t"] * targets + ["fab-t"] * 9 + ["square"]
  assert len(names) == stages and cascade.stages[-1].attack.num_steps == 5000
  assert [stage.rank for stage in cascade.stages if stage.rank] == [*range(1, targets + 1), *range(1, 10)]


def test_minimum_margin_presets_have_the_papers_targets():
  shapes = {
    name: (len(c.stages), c.stages[0].attack.num_steps)
    for name in ("mm3", "mm5", "mm9", "mm+")
    if (c := make_attack(name))
  }
  assert shapes == {"mm3": (3, 20), "mm5": (5, 20), "mm9": (9, 20), "mm+": (9, 100)}


def test_the_cascade_is_never_weaker_than_its_parts():
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 30)
  cascade = make_attack("autoattack", **SMALL)
  whole = attack_images(cascade, classifier, images, labels, eps=0.012, options=OPTIONS)
  for part in {stage.attack: stage for stage in cascade.stages}.values():
    alone = attack_images(Cascade((part,)), classifier, images, labels, eps=0.012, options=OPTIONS)
    assert (whole.success >= alone.success).all(), attack_name(part.attack)
  assert 0 < whole.success.sum() < 30


@pytest.mark.parametrize(
  "classes, losses",
  [
    (2, {"ce", "mm", "margin"}),
    pytest.param(3, {"ce", "mm", "margin"}, marks=pytest.mark.ci),
    pytest.param(4, {"ce", "dlr-t", "margin"}, marks=pytest.mark.ci),
  ],
)
def test_few_classes_get_documented_substitutes(classes, losses, tmp_path):
  classifier = few_classes(classes)
  images, labels = labeled(classifier)
  data = ArraySource("few", images, labels, classes)
  report = evaluate(
    classifier,
    data,
    [attack_entry("autoattack", "0.02", **SMALL)],
    out=tmp_path,
    options=RunOptions(OPTIONS, quiet=True),
  )
  (result,) = report.results
  assert {stage["loss"] for stage in result.config["attack"] if "loss" in stage} == losses
  kinds = {finding["kind"] for finding in result.findings}
  assert ("substituted-loss" in kinds) == (classes < 4)


def test_an_explicit_dlr_with_too_few_classes_is_refused():
  classifier = few_classes(2)
  images, labels = labeled(classifier, 2)
  with pytest.raises(InputError, match="at least 3 classes"):
    attack_images(make_attack("apgd-dlr"), classifier, images, labels, eps=0.1)
  with pytest.raises(InputError, match="chooses its own targets"):
    attack_images(make_attack("mm3"), classifier, images, labels, eps=0.1, targets=1 - labels)


def probabilities(variables, images):
  logits = testing.fixture().apply.function(variables, images)
  return jax.nn.softmax(logits)


def rounded(variables, images):
  return testing.fixture().apply.function(variables, jnp.round(images * 40) / 40)


@pytest.mark.parametrize(
  "function, kind", [(probabilities, "softmax-output"), (rounded, "zero-gradient"), (rounded, "query-beats-gradient")]
)
def test_suspicious_models_are_named(function, kind, tmp_path):
  classifier = Classifier.from_function(function, testing.CLASSES, variables=testing.fixture().variables)
  images, labels = labeled(classifier, 20)
  data = ArraySource("suspects", images, labels, testing.CLASSES)
  entry = attack_entry("autoattack", "0.02", num_steps=6, queries=200)
  report = evaluate(classifier, data, [entry], out=tmp_path, options=RunOptions(OPTIONS, quiet=True))
  assert kind in {finding["kind"] for finding in report.results[0].findings}


def noisy(variables, images, key):
  base = testing.fixture().apply.function(variables, images)
  return base + 0.1 * jax.random.normal(key, base.shape)


def test_randomized_models_are_named_and_have_their_own_version(tmp_path):
  classifier = Classifier.from_function(noisy, testing.CLASSES, variables=testing.fixture().variables, randomized=True)
  images, labels = testing.examples(testing.fixture(), 8)
  data = ArraySource("noisy", images, labels, testing.CLASSES)
  entries = [attack_entry(name, "0.01", num_steps=4) for name in ("mm3", "autoattack-rand")]
  report = evaluate(classifier, data, entries, out=tmp_path, options=RunOptions(OPTIONS, quiet=True, samples=3))
  named = [any(finding["kind"] == "randomised" for finding in result.findings) for result in report.results]
  assert named == [True, False]


# Survivors of the recorded run that the authors' own Square breaks when it draws again on them (seeds 0 and 1).
LUCK = {"l2": (31, 93)}


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("norm, eps", [("linf", 0.1), ("l2", 1.5), ("l1", 10)])
def test_autoattack_equals_the_authors_on_fashion_mnist(norm, eps):
  theirs = reference_flags(f"autoattack/standard_{norm}")[:100]
  images, labels = fmnist_test(100)
  ours = attack_images(make_attack("autoattack", norm=norm), fmnist_network(), images, labels, eps=eps)
  assert np.mean(np.delete(ours.robust == theirs, LUCK.get(norm, ()))) >= 0.98


@needs_data
@pytest.mark.ci
def test_mm5_equals_the_authors_on_fashion_mnist():
  theirs = reference_flags("mm-attack/mm5_20_linf")
  images, labels = fmnist_test(len(theirs))
  ours = attack_images(make_attack("mm5"), fmnist_network(), images, labels, eps=0.1)
  assert np.mean(ours.robust == theirs) >= 0.99 and abs(ours.robust.mean() - theirs.mean()) <= 0.004


@needs_data
@pytest.mark.slow
def test_autoattack_on_a_real_cifar_network():
  images, labels = cifar10_test(100)
  ours = attack_images(make_attack("autoattack"), cifar10_network("cnn_a_adv4"), images, labels, eps="8/255")
  record = json.loads((ROOT / "reference" / "cifar10_autoattack.json").read_text())["cnn_a_adv4_Linf_8"]
  theirs = np.array([bit == "1" for bit in record["robust"][:100]])
  assert np.mean(ours.robust == theirs) >= 0.99


def test_a_stage_of_no_class_is_passed_over():
  classifier = few_classes(3)
  images, labels = labeled(classifier, 4)
  pgd = make_attack("pgd", num_steps=4)
  result = attack_images(Cascade((Stage(pgd, rank=7),)), classifier, images, labels, eps=0.5)
  assert not result.success.any() and not result.queries.any()


def test_autoae_has_the_authors_stages():
  steps = lambda cascade: [
    (attack_name(stage.attack), stage.attack.num_steps) for stage in cascade.stages if stage.rank in (None, 9)
  ]
  targeted = lambda *numbers: [("apgd-t", number) for number in numbers]
  assert steps(make_attack("autoae")) == [
    ("apgd-dlr", 32), ("apgd-ce", 32), *targeted(63), ("fab", 63), *targeted(126), ("apgd-dlr", 160), *targeted(378),
  ]  # fmt: skip
  assert steps(make_attack("autoae", norm="l2")) == [
    ("ddn", 124), ("apgd-ce", 31), ("ddn", 624), ("apgd-dlr", 31), *targeted(62),
  ]  # fmt: skip
  split = make_attack("autoae", split=True).stages
  assert [stage.attack.num_steps for stage in split if stage.rank == 1] == [7, 14, 42]
  with pytest.raises(UnknownNameError, match="unknown norm 'l1'"):
    make_attack("autoae", norm="l1")
  losses = {getattr(stage.attack, "loss", None) for stage in make_attack("autoae").adapted(2).stages}
  assert losses == {"margin", "ce", "mm", None}


@pytest.mark.ci
@pytest.mark.parametrize("norm, eps", [("linf", 0.012), ("l2", 0.15)])
def test_autoae_is_never_weaker_than_its_first_stage(norm, eps):
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 16)
  cascade = make_attack("autoae", norm=norm, split=True)
  whole = attack_images(cascade, classifier, images, labels, eps=eps, options=OPTIONS)
  first = attack_images(Cascade(cascade.stages[:1]), classifier, images, labels, eps=eps, options=OPTIONS)
  assert (whole.success >= first.success).all() and 0 < whole.success.sum() < 16
  steps = [stage.attack.num_steps for stage in cascade.stages if (stage.rank or 0) < testing.CLASSES]
  assert (whole.queries[whole.robust] == sum(steps)).all()
