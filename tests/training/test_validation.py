"""Validation during training is the engine's work: every example counted once, stopped halfway, compiled once."""

from __future__ import annotations

import dataclasses
import types

import jax
import numpy as np
import pytest

from jaxrobust.attacks.pgd import PGD
from jaxrobust.attacks.registry import make_attack
from jaxrobust.core.compilation import count_compilations
from jaxrobust.engine.api import attack_images
from jaxrobust.testing import CLASSES, examples, fixture
from jaxrobust.training import loop, validation
from jaxrobust.training.composition import make_technique
from jaxrobust.training.validation import Score, validate

STEPS = 3
OBJECTIVE = make_technique("pgd-at", eps="0.1")


@pytest.fixture(scope="module")
def rows():
  """A classifier and 9 examples, the first of which it gets wrong."""
  classifier = fixture()
  images, labels = examples(classifier, 9)
  labels = np.array(labels)
  labels[0] = (labels[0] + 1) % CLASSES
  return classifier, images, labels


def test_every_example_counts_once_clean_and_attacked(rows):
  score = validate(make_technique("pgd-at", eps="0.5"), *rows, STEPS)
  assert score.clean == pytest.approx(8 / 9) and score.robust <= score.clean
  assert validate(make_technique("standard"), *rows, STEPS) == Score(8 / 9, 8 / 9)
  assert validate(make_technique("pgd-at", eps="0"), *rows, STEPS) == Score(8 / 9, 8 / 9)


def test_threats_that_are_no_norms_are_judged_by_their_own_attacks(rows):
  score = validate(make_technique("stadv-at", eps="0.2"), *rows, STEPS)
  result = attack_images(make_attack("stadv", num_steps=STEPS), *rows, 0.2)
  assert score == Score(result.correct.mean(), result.robust.mean())
  assert make_technique("pat").judged_by(STEPS) == make_attack("ppgd", num_steps=STEPS)
  assert make_technique("multi-at", budgets={"l2": "1", "stadv": "0.05"}).judged_by(STEPS) == PGD("l2", STEPS)


@pytest.mark.ci
def test_robust_is_what_the_engine_says_of_the_same_attack_in_the_norm_that_is_trained_for(rows):
  classifier, images, labels = rows
  seen = set()
  for norm, eps in (("linf", 0.02), ("linf", 0.1), ("l2", 0.5)):
    result = attack_images(PGD(norm, num_steps=STEPS), classifier, images, labels, eps)
    score = validate(make_technique("pgd-at", norm=norm, eps=str(eps)), *rows, STEPS)
    assert score == Score(result.correct.mean(), result.robust.mean())
    seen.add(score.robust)
  assert len(seen) > 1


@pytest.mark.parametrize("count", [2, 4, 12])
def test_shares_of_processes_add_up_to_the_whole(rows, count):
  classifier, images, labels = rows
  ids = 100 + np.arange(len(labels))
  counts = []

  def keep(mine):
    counts.append(mine)
    return np.array([0, 0, 1, 0])

  shares = [slice(index, None, count) for index in range(count)]
  for share in shares:  # Some of twelve have nothing to do.
    validate(OBJECTIVE, classifier, images[share], labels[share], STEPS, lambda: False, ids[share], keep)
  whole = validate(OBJECTIVE, *rows, STEPS, ids=ids)
  assert validate(OBJECTIVE, *rows, STEPS, ids=ids, total=lambda _: np.sum(counts, axis=0)) == whole
  assert np.sum(counts, axis=0)[2:].tolist() == [9, 0]


def test_asked_to_stop_it_leaves_before_and_halfway_and_with_the_others(rows, monkeypatch):
  assert validate(OBJECTIVE, *rows, STEPS, lambda: True) is None
  asked, ended = iter([False, False, True]), []
  counted = validation.attack_images

  def watched(*arguments, **options):
    result = counted(*arguments, **options)
    ended.append(result)
    return result

  monkeypatch.setattr(validation, "attack_images", watched)
  assert validate(OBJECTIVE, *rows, STEPS, lambda: next(asked)) is None and not ended
  # Another process was asked.
  assert validate(OBJECTIVE, *rows, STEPS, total=lambda counts: counts + np.array([0, 0, 0, 1])) is None and ended


def test_a_later_epoch_compiles_nothing(rows):
  classifier, images, labels = rows
  validate(OBJECTIVE, *rows, STEPS)
  moved = jax.tree.map(lambda leaf: np.asarray(leaf) * np.float32(0.8), classifier.variables)
  with count_compilations() as count:
    other = validate(OBJECTIVE, dataclasses.replace(classifier, variables=moved), images, labels, STEPS)
  assert count.programs == 0 and other is not None


def test_slots_are_no_more_than_the_examples_and_split_over_the_devices():
  devices = jax.local_device_count()
  for count in (0, 1, 7, 30):
    slots = validation._options(count, (32, 32, 3)).slots
    assert slots % devices == 0 and count <= slots < count + devices + 1
  usual = validation.default_slots(validation.EngineOptions.for_platform(), (32, 32, 3))
  assert validation._options(10**6, (32, 32, 3)).slots == usual


@pytest.mark.parametrize("count", [1, 3, 40])
def test_the_loop_gives_every_process_its_share_of_the_held_out_examples(monkeypatch, count):
  """Together they are the held-out examples, also where there are fewer than processes."""
  taken, shares = [], []

  class Data:
    def __len__(self):
      return 50

    def take(self, ids):
      taken.append(len(ids))
      return np.zeros((len(ids), 4, 4, 3), np.float32), ids

  recipe = types.SimpleNamespace(module=None, mean=0, std=1, plan=types.SimpleNamespace(objective=OBJECTIVE))
  config = types.SimpleNamespace(holdout=20, validate_steps=STEPS)
  run = types.SimpleNamespace(data=Data(), train_size=30, config=config, recipe=recipe, mesh=None, stop=None)
  monkeypatch.setattr(loop, "validate", lambda *given: shares.append(given[3:]))
  monkeypatch.setattr(loop.Classifier, "from_module", lambda *_, **__: None)
  monkeypatch.setattr(loop.jax, "process_count", lambda: count)
  for index in range(count):
    monkeypatch.setattr(loop.jax, "process_index", lambda index=index: index)
    loop._validated(run, None)
  held = loop.split_ids(50, 30)[1]
  assert sorted(np.concatenate([ids for _, _, _, ids, _ in shares])) == sorted(held) and 0 not in taken
  assert all(len(labels) == len(ids) for labels, _, _, ids, _ in shares)
