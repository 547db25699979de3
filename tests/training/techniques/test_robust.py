"""Robust objectives: each equals its formula, computed by hand or by plain NumPy on a linear network."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.training.composition import make_plan, make_technique
from jaxrobust.training.step import train_step
from jaxrobust.training.techniques.alp import alp_loss
from jaxrobust.training.techniques.distill import distillation_loss
from jaxrobust.training.techniques.mart import mart_loss
from jaxrobust.training.techniques.trades import trades_score_loss
from jaxrobust.training.techniques.variation import variation
from tests.training.techniques import linear
from tests.training.techniques.linear import RATE, Training, context, divergence, entropy, rows, softmax, start, weights

Y = np.array([[1.0, 0, 0], [0, 0, 1.0]])
CLEAN = np.array([[1.0, 2.0, 0.5], [0.2, -0.3, 1.0]])
MOVED = np.array([[2.0, 0.0, 0.1], [0.1, 0.4, 0.3]])


def crafted(objective, batch, frozen):
  """Returns what an objective crafts, as one program."""
  return jax.jit(lambda rows: objective.craft(rows, frozen))(batch)


def test_score_equals_plain_numpy():
  p, q = softmax(CLEAN), softmax(MOVED)
  want = np.sum((p - Y) ** 2, -1) + 3 * np.sum((q - p) ** 2, -1)
  np.testing.assert_allclose(trades_score_loss(*map(jnp.asarray, (CLEAN, MOVED, Y)), 3.0), want, rtol=1e-5)
  objective, batch, matrix = make_technique("pgd-score"), rows(), weights()
  losses = objective.loss(Training(matrix), batch, context(matrix, crafted=batch.images))
  logits = np.asarray(batch.images).reshape(6, -1) @ matrix
  np.testing.assert_allclose(losses.values, np.sum((softmax(logits) - batch.targets) ** 2, -1), rtol=1e-5)


def test_mart_equals_plain_numpy():
  want = []
  for z, w, y in zip(CLEAN, MOVED, Y, strict=True):
    label, p, q = int(y.argmax()), softmax(z), softmax(w)
    other = max(value for k, value in enumerate(q) if k != label)
    boosted = -np.log(q[label]) - np.log(1.0001 - other)
    want.append(boosted + 6 * (1 - p[label]) * sum(a * np.log(a / b) for a, b in zip(p, q, strict=True)))
  np.testing.assert_allclose(mart_loss(*map(jnp.asarray, (CLEAN, MOVED, Y)), 6.0), want, rtol=1e-5)


def test_alp_and_distillation_equal_their_formulas():
  want = (entropy(CLEAN, Y) + entropy(MOVED, Y)) / 2 + 0.5 * np.mean((CLEAN - MOVED) ** 2, -1)
  np.testing.assert_allclose(alp_loss(*map(jnp.asarray, (CLEAN, MOVED, Y)), 0.5), want, rtol=1e-5)
  soft = distillation_loss(jnp.asarray(CLEAN), jnp.asarray(MOVED), 4.0)
  np.testing.assert_allclose(soft, 16 * divergence(CLEAN / 4, MOVED / 4), rtol=1e-4)
  # As the temperature grows, T^2 KL becomes the squared distance of centered logits over twice the classes.
  centered = (CLEAN - CLEAN.mean(-1, keepdims=True)) - (MOVED - MOVED.mean(-1, keepdims=True))
  limit = distillation_loss(jnp.asarray(CLEAN), jnp.asarray(MOVED), 30.0)
  np.testing.assert_allclose(limit, np.sum(centered**2, -1) / 6, rtol=0.05)


def test_distillation_asks_its_teacher():
  matrix, teacher, batch = weights(), weights(5), rows()
  objective = make_technique("distill", teacher="t", weight=0.3, temperature=2.0)
  frozen = context(matrix, frozen_models={"t": linear.classifier(teacher)})
  losses = objective.loss(Training(matrix), batch, frozen._replace(crafted=crafted(objective, batch, frozen)))
  x = np.asarray(batch.images).reshape(6, -1)
  want = 0.7 * entropy(x @ matrix, batch.targets) + 0.3 * 4 * divergence(x @ teacher / 2, x @ matrix / 2)
  np.testing.assert_allclose(losses.values, want, rtol=1e-4)


def test_helper_training_equals_its_formula():
  matrix, helper, batch = weights(), weights(5), rows()
  objective = make_technique("hat", helper="h", eps="0.1")
  frozen = context(matrix, frozen_models={"h": linear.classifier(helper)})
  made = crafted(objective, batch, frozen)
  losses = objective.loss(Training(matrix), batch, frozen._replace(crafted=made))
  x, moved = (np.asarray(images).reshape(6, -1) for images in (batch.images, made[0]))
  said = np.eye(3)[(moved @ helper).argmax(-1)]
  want = entropy(x @ matrix, batch.targets) + 2.5 * divergence(x @ matrix, moved @ matrix)
  want += 0.5 * entropy((x + 2 * (moved - x)) @ matrix, said)
  np.testing.assert_allclose(losses.values, want, rtol=1e-4)
  assert np.abs(moved - x).max() > 0.09


@pytest.mark.parametrize("alike", [True, False])
def test_ensemble_training_attacks_one_of_its_networks(alike):
  matrix, source, batch = weights(), weights(5), rows()
  other = linear.classifier(source)
  if not alike:
    other = Classifier.from_function(lambda w, x: x.reshape(len(x), -1) @ w, 3, variables=jnp.asarray(source))
  objective = make_technique("ensemble-at", sources=("s",), eps="0.1")
  seen = set()
  craft = jax.jit(lambda key: objective.craft(batch, frozen._replace(key=key)))
  frozen = context(matrix, frozen_models={"s": other})
  x, y = np.asarray(batch.images), np.asarray(batch.targets)
  signs = {name: np.sign((softmax(x.reshape(6, -1) @ w) - y) @ w.T).reshape(x.shape)
           for name, w in (("own", matrix), ("source", source))}  # fmt: skip
  for seed in range(8):
    found = np.asarray(craft(jax.random.key(seed)))
    near = [name for name, sign in signs.items() if np.abs(found - (x + 0.1 * sign)).max() < 1e-5]
    assert len(near) == 1
    seen |= set(near)
  assert seen == {"own", "source"}


def test_free_training_equals_the_unrolled_definition():
  recipe, state = start("free-at", options={"free-at": {"replays": 3, "eps": "0.1", "step_size": 0.4}})
  step = jax.jit(functools.partial(train_step, recipe))
  matrix, delta = weights().astype(np.float64), np.zeros((6, 4))
  for seed in (1, 2):
    batch = rows(seed=seed)
    state, report = step(state, batch.images, batch.labels, batch.ids)
    x, y, losses = np.asarray(batch.images, np.float64).reshape(6, -1), np.asarray(batch.targets), []
    for _ in range(3):
      moved = np.clip(x + delta, 0, 1)
      losses.append(entropy(moved @ matrix, y).mean())
      wrong = (softmax(moved @ matrix) - y) / 6
      delta = np.clip(delta + 0.04 * np.sign(wrong @ matrix.T), -0.1, 0.1)
      matrix = matrix - RATE * moved.T @ wrong
    assert float(report["loss"]) == pytest.approx(np.mean(losses), rel=1e-5)
    np.testing.assert_allclose(state.params["head"]["kernel"], matrix, atol=1e-5)
    np.testing.assert_allclose(np.asarray(state.objective_state).reshape(6, -1), delta, atol=1e-6)
  assert int(state.step) == 2


@pytest.mark.parametrize("name", ["mm-at", "mm-at-fixed"])
def test_minimum_margin_training_goes_where_the_margin_is_least(name):
  matrix, batch = weights(), rows()
  images = np.asarray(crafted(make_technique(name, eps="0.1", targets=2), batch, context(matrix))).reshape(6, -1)
  for x, label, found in zip(np.asarray(batch.images).reshape(6, -1), batch.labels, images, strict=True):
    ends = [x + 0.1 * np.sign(matrix[:, t] - matrix[:, label]) for t in range(3) if t != label]
    margins = [max((end @ matrix)[t] - (end @ matrix)[label] for t in range(3) if t != label) for end in ends]
    np.testing.assert_allclose(found, ends[int(np.argmax(margins))], atol=1e-5)
  with pytest.raises(InputError, match="3 target classes need more than 3 classes"):
    make_technique(name).craft(batch, context(matrix))


def test_variation_spans_the_ball():
  matrix, batch = weights(), rows()
  objective = make_technique("vr", eps="0.1", weight=2.0, num_steps=20)
  frozen = context(matrix)
  made = crafted(objective, batch, frozen)
  # Of a linear network the features are the image itself: the two points end in opposite corners.
  np.testing.assert_allclose(variation(*(part.reshape(6, -1) for part in made[1:])), 0.2 * 2, rtol=1e-4)
  losses = objective.loss(Training(matrix), batch, frozen._replace(crafted=made))
  logits = np.asarray(made[0]).reshape(6, -1) @ matrix
  np.testing.assert_allclose(losses.values, entropy(logits, batch.targets) + 2 * 0.4, rtol=1e-4)
  pair = crafted(make_technique("vr", eps="0.1", on="logits", num_steps=20), batch, frozen)[1:]
  spread = np.linalg.norm((np.asarray(pair[0] - pair[1])).reshape(6, -1) @ matrix, axis=-1)
  corners = np.array(np.meshgrid(*[[-0.2, 0.2]] * 4)).reshape(4, -1).T
  assert (spread > 0.8 * np.linalg.norm(corners @ matrix, axis=-1).max()).all()


def test_max_margin_training_finds_and_remembers_the_boundary():
  matrix = weights()
  matrix[:, 2] = -5  # Two classes matter.
  batch = rows()
  objective = make_technique("mma", eps="0.3", bisections=20)
  kept_before = objective.init_state((), 9)
  frozen = context(matrix, state=kept_before)
  ids = jnp.array([8, 1, 3, 0, 6, 2])
  batch = batch._replace(ids=ids, targets=jnp.eye(3)[np.asarray(batch.labels) % 2])
  found = crafted(objective, batch, frozen)
  x = np.asarray(batch.images, np.float64).reshape(6, -1)
  toward = matrix[:, 1] - matrix[:, 0]
  gaps = np.where(np.asarray(batch.targets)[:, 1] > 0, 1, -1) * (x @ toward)
  distances = np.where(gaps > 0, np.minimum(gaps / np.abs(toward).sum(), 1.05 * 0.3), 0)
  np.testing.assert_allclose(found.distances, distances, atol=1e-3)
  assert (np.asarray(found.right) == (gaps > 0)).all() and 0 < found.right.sum() < 6
  frozen = frozen._replace(crafted=found)
  kept = np.asarray(objective.update_state(batch, frozen, None))
  np.testing.assert_allclose(kept[np.asarray(ids)], found.distances)
  np.testing.assert_allclose(kept[[4, 5, 7]], 0.16 * 0.3)
  values = objective.loss(Training(matrix), batch, frozen).values
  moved = np.asarray(found.images).reshape(6, -1)
  worth = (gaps <= 0) | (distances < 0.3)
  want = entropy(x @ matrix, batch.targets) / 3 + 2 / 3 * np.where(worth, entropy(moved @ matrix, batch.targets), 0)
  np.testing.assert_allclose(values, want, rtol=1e-3)


def test_friendly_training_stops_once_the_answer_is_wrong():
  matrix, batch = weights(), rows(30)
  true = np.asarray(batch.labels)
  answers = lambda images: (np.asarray(images).reshape(30, -1) @ matrix).argmax(-1)
  options = {"eps": "0.3", "random_start": False, "step_size": 0.1}
  full = crafted(make_technique("pgd-at", **options), batch, context(matrix))
  found = {tau: crafted(make_technique("fat", tau=tau, **options), batch, context(matrix)) for tau in (0, 1, 50)}
  far = {tau: np.abs(np.asarray(images - batch.images)).max((1, 2, 3)) for tau, images in found.items()}
  np.testing.assert_allclose(found[50], full, atol=1e-6)
  assert ((answers(found[0]) != true) == (answers(full) != true)).all()
  wrong_at_once, resists = answers(batch.images) != true, answers(full) == true
  between = ~wrong_at_once & ~resists
  assert (far[0][wrong_at_once] == 0).all() and between.any()
  np.testing.assert_allclose(far[1][wrong_at_once], 0.03, atol=1e-6)
  assert (far[0][between] < far[1][between] + 1e-6).all() and (far[0][between] < 0.3 - 1e-3).any()
  late = make_technique("fat", **options)
  for done, tau in ((0.1, 0), (0.5, 1)):
    np.testing.assert_allclose(
      crafted(late, batch, context(matrix, train_fraction=jnp.float32(done))), found[tau], atol=1e-6
    )


def test_multi_attack_modes():
  matrix, batch = weights(), rows()
  options = {"budgets": {"linf": "0.1", "l2": "0.15", "l1": "0.3"}, "random_start": False}
  frozen = context(matrix)
  loss = lambda images: entropy(np.asarray(images).reshape(6, -1) @ matrix, batch.targets)
  singles = [crafted(make_technique("pgd-at", eps=eps, norm=norm, random_start=False), batch, frozen)
             for norm, eps in options["budgets"].items()]  # fmt: skip
  losses = np.stack([loss(images) for images in singles])
  made = {mode: make_technique("multi-at", mode=mode, **options) for mode in ("average", "max", "random", "msd")}
  made["rex"] = make_technique("multi-at", mode="rex", weight=5.0, **options)
  found = {mode: crafted(objective, batch, frozen) for mode, objective in made.items()}
  values = {mode: np.asarray(made[mode].loss(Training(matrix), batch, frozen._replace(crafted=images)).values)
            for mode, images in found.items()}  # fmt: skip
  np.testing.assert_allclose(values["average"], losses.mean(0), rtol=1e-5)
  np.testing.assert_allclose(values["max"], losses.max(0), rtol=1e-5)
  np.testing.assert_allclose(values["rex"], losses.mean(0) + 5 * losses.mean(1).var(), rtol=1e-5)
  assert any(np.allclose(found["random"][0], images, atol=1e-6) for images in singles)
  # On a linear network the steepest single steps of any norm lead to the worst ball.
  assert (values["msd"] > losses.max(0) - 0.02).all()
  delta = np.asarray(found["msd"][0] - batch.images).reshape(6, -1)
  sizes = np.stack([np.linalg.norm(delta, order, axis=1) / eps for order, eps in ((np.inf, 0.1), (2, 0.15), (1, 0.3))])
  assert (sizes.min(0) < 1 + 1e-4).all()
  assert made["max"].norm == "linf" and made["max"].budget == pytest.approx(0.1)


def test_margins_are_taken_from_the_true_class_only_in_classification_losses():
  embedding = make_technique("he", scale=10.0, cosine=0.2)
  matrix, batch = weights(), rows()
  frozen = context(matrix, crafted=batch.images, margin=embedding.margin)
  logits = np.asarray(batch.images).reshape(6, -1) @ matrix
  want = entropy(logits - 2.0 * np.asarray(batch.targets), batch.targets)
  for name in ("standard", "pgd-at", "trades", "alp", "half-at"):  # On equal images the pairing parts vanish.
    np.testing.assert_allclose(make_technique(name).loss(Training(matrix), batch, frozen).values, want, rtol=1e-4)


@pytest.mark.parametrize(
  "name, options, kind",
  [
    ("pgd-at", {"crafting": "training"}, UnknownNameError),
    ("mart", {"beta": -1.0}, InputError),
    ("free-at", {"replays": 0}, InputError),
    ("multi-at", {"mode": "mean"}, UnknownNameError),
    ("multi-at", {"budgets": ()}, InputError),
    ("multi-at", {"budgets": {"linf": "8/255", "stadv": "0.05"}, "mode": "msd"}, InputError),
    ("multi-at", {"budgets": {"linf": "8/255", "stadvv": "0.05"}}, UnknownNameError),
    ("vr", {"on": "pixels"}, UnknownNameError),
    ("he", {"scale": 0.0}, InputError),
    ("awp", {"gamma": -0.1}, InputError),
    ("swa", {"start": 1.0}, InputError),
    ("distill", {"temperature": 0.0}, InputError),
    ("fat", {"tau": -1}, InputError),
    ("mma", {"bisections": 0}, InputError),
  ],
)
def test_bad_settings_are_refused(name, options, kind):
  with pytest.raises(kind):
    make_technique(name, **options)


@pytest.mark.parametrize("name", ["distill", "hat", "ensemble-at"])
def test_a_network_that_is_not_named_is_asked_for(name):
  with pytest.raises(InputError, match=f"{name} asks other networks: name their folders"):
    make_plan((name,), {})
