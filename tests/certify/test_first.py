"""Certify first: the same flags for less, and nothing where nothing is proved."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks.minimum_budget import MinimumBudget
from jaxrobust.attacks.registry import make_attack
from jaxrobust.attacks.schedule import as_schedule
from jaxrobust.certify.certifier import METHODS, Certifier, certified_radii
from jaxrobust.certify.crown import BoundMethod
from jaxrobust.certify.first import (
  CERTIFIED_STAGE,
  BoundPilot,
  CertifyFirst,
  bound_passes,
  hidden_neurons,
  paying_bounds,
)
from jaxrobust.core.classifier import Classifier
from jaxrobust.engine.api import attack_images
from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.suites.entry import attack_entry
from jaxrobust.results import load_result

SHAPE = (2, 2, 1)
WEIGHTS = np.random.default_rng(5).normal(size=(4, 6)), np.random.default_rng(6).normal(size=(6, 3))


def _logits(images: jax.Array) -> jax.Array:
  first, second = (jnp.asarray(one, jnp.float32) for one in WEIGHTS)
  return jax.nn.relu((images.reshape(len(images), -1) - 0.5) @ first) @ second


MODEL = Classifier.from_function(_logits, 3, name="small")
IMAGES = np.random.default_rng(7).uniform(size=(40, *SHAPE)).astype(np.float32)
LABELS = np.asarray(MODEL(IMAGES)).argmax(1)
LABELS[::7] = (LABELS[::7] + 1) % 3


def _run(certify: str, out, share: tuple[int, int] = (0, 1)):  # type: ignore[no-untyped-def]
  options = RunOptions(quiet=True, certify=certify, process=share[0], processes=share[1])
  entries = [attack_entry("pgd", "0.05", num_steps=10), attack_entry("mm5", "0.05")]
  return evaluate(MODEL, (IMAGES, LABELS), entries, out=out, options=options)


def test_the_same_flags_without_attacking_what_is_proved(tmp_path) -> None:  # type: ignore[no-untyped-def]
  plain, proved = _run("", tmp_path / "plain"), _run("crown", tmp_path / "proved")
  for before, after in zip(plain.cells, proved.cells, strict=True):
    old, new = before.result.examples, after.result.examples
    assert (old["robust"] == new["robust"]).all() and (old["correct"] == new["correct"]).all()
    closed = new["certified_radius"] >= np.float32(0.05)
    assert closed.sum() > 5 and new["robust"][closed & new["correct"]].all()
    assert (new["stage"][closed] == CERTIFIED_STAGE).all() and (new["queries"][closed] == 0).all()
    assert (old["queries"][~closed] == new["queries"][~closed]).all()
    assert new["queries"].sum() < 0.7 * old["queries"].sum()
    assert after.result.config["certify"] == {"method": "crown", "pilot": 16}
  # Two processes find what one does.
  for share in range(2):
    _run("crown", tmp_path / "shared", (share, 2))
  for cell in proved.cells:
    path = cell.result.cell.path(tmp_path / "shared")
    assert load_result(path).examples["stage"].tolist() == cell.result.examples["stage"].tolist()


def test_the_attacks_of_a_classifier_share_the_pilot_and_no_budget_proves_nothing(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
  asked = []
  call = Certifier.__call__

  def counted(self, images, labels, eps):  # type: ignore[no-untyped-def]
    asked.append((self.methods, float(eps[0])))
    return call(self, images, labels, eps)

  monkeypatch.setattr(Certifier, "__call__", counted)
  entries = [attack_entry("pgd", "0.9", num_steps=steps) for steps in (9, 10, 11)]
  entries += [attack_entry("pgd", "0", num_steps=9)]
  options = RunOptions(quiet=True, certify="crown-ibp")
  cells = evaluate(MODEL, (IMAGES, LABELS), entries, out=tmp_path, options=options).cells
  # Nothing is proved at 0.9, which is found out once; of a budget of 0 there is nothing to prove.
  assert [eps for _, eps in asked].count(0.9) == 1
  unmoved = cells[-1].result.examples
  assert (unmoved["robust"] == unmoved["correct"]).all() and (unmoved["stage"] == -1).all()


def test_a_radius_does_not_depend_on_what_was_asked_before(tmp_path) -> None:  # type: ignore[no-untyped-def]
  """Searches of different budgets begin elsewhere; each cell is what it would be alone."""
  entries = [attack_entry("deepfool", eps, norm="linf", num_steps=2) for eps in ("0.04", "0.07")]
  options = RunOptions(quiet=True, certify="crown-ibp")

  def radii(entries, folder):  # type: ignore[no-untyped-def]
    report = evaluate(MODEL, (IMAGES[:8], LABELS[:8]), entries, out=tmp_path / folder, options=options)
    return report.cells[-1].result.examples["certified_radius"].tolist()

  alone = radii(entries[1:], "alone")
  assert radii(entries, "both") == alone and max(alone) > 0.07


def _paying(eps: float, passes: float, method: str = "crown") -> tuple[BoundMethod, ...]:
  return paying_bounds(_pilot(method), eps, passes)


def _pilot(method: str = "crown", neurons: int = 6) -> BoundPilot:
  return BoundPilot(Certifier(MODEL, SHAPE, method=method), lambda rows: (IMAGES[rows], LABELS[rows]), 16, neurons)


def test_bounds_that_cost_more_than_they_save_are_left_out() -> None:
  """Counted passes decide: what proves nothing, what is too dear for the attack, what is too dear for the network."""
  assert _paying(0.9, math.inf) == () and _paying(0.05, 1.0) == ()
  cheap = METHODS["crown-ibp"]
  assert _paying(0.05, math.inf)[:1] == cheap and set(_paying(0.05, math.inf)) <= set(METHODS["crown"])
  # Just enough for the intervals and a row per class, not for rows of neurons too.
  between = bound_passes(cheap[0], 6, 3) * 3
  assert bound_passes(METHODS["crown"][1], 6000, 3) > between
  assert paying_bounds(_pilot(neurons=6000), 0.05, between) == cheap
  assert paying_bounds(_pilot(neurons=10_000), 0.05, math.inf) == cheap
  wide = Classifier.from_function(
    lambda x: jax.nn.relu(jax.nn.relu(jnp.repeat(x.reshape(len(x), -1), 4000, 1)))[:, :2], 2
  )
  assert hidden_neurons(wide, SHAPE) == 16_000


def test_a_search_begins_at_the_certified_radius() -> None:
  """Budgets below the radius are not tried, and the answer is the same within the search's tolerance."""
  search = MinimumBudget(make_attack("bim", num_steps=20), start=0.05)
  images, labels = IMAGES[1:7], LABELS[1:7]
  plain = attack_images(search, MODEL, images, labels)
  certifier = Certifier(MODEL, SHAPE)
  radii = np.nan_to_num(certified_radii(certifier, images, labels, 0.05))
  first = attack_images(CertifyFirst(search, tuple(radii.tolist())), MODEL, images, labels)
  assert (first.distance > radii).all()
  found = plain.distance < 0.3  # Beyond, failures at a budget say little: the box is in the way.
  np.testing.assert_allclose(first.distance[found], plain.distance[found], rtol=0.03)
  told = CertifyFirst(as_schedule(make_attack("pgd")), (0.1,) * 6)
  assert attack_images(told, MODEL, images, labels, eps=0.1).queries.sum() == 0
