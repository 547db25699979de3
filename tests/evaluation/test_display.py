"""What a prompt or a notebook shows: short, with the interval, never the arrays."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import jaxrobust as jr
from jaxrobust.evaluation.job import RunOptions


def _data():
  images = np.full((4, 4, 4, 2), 0.5, np.float32)
  images[..., 0] += 0.01
  return images, np.zeros(4, int)


def test_short_texts_and_tables_with_the_interval_and_what_was_found():
  weights = jnp.ones((4096, 2))
  logits = lambda w, x: jnp.exp(x.mean((1, 2))) / jnp.exp(x.mean((1, 2))).sum(-1, keepdims=True) * w[0]
  classifier = jr.Classifier.from_function(logits, 2, variables=weights, name="<mine>")
  assert repr(classifier) == "Classifier(<mine>, 2 classes, 8,192 numbers)"
  result = jr.attack_images(jr.make_attack("fgsm"), classifier, *_data(), eps="8/255")
  assert repr(result).startswith("AttackResult(4 images, clean 100.0 [51.0, 100.0] %, robust 0.0 [0.0, 49.0] %")
  assert "\n" not in repr(result) and "<td>0.0 … 49.0</td>" in result._repr_html_()
  report = jr.evaluate(classifier, _data(), eps="8/255", name="<net>", options=RunOptions(quiet=True))
  text, table = repr(report), report._repr_html_()
  assert text.startswith("Report(<net>: clean 100.0 [51.0, 100.0] %, linf-fgsm@8/255 0.0") and len(text) < 250
  assert "findings: softmax-output" in text and "softmax-output: the model returns probabilities" in table
  assert "&lt;net&gt;" in table and "<net>" not in table


def test_nothing_attacked_is_shown_as_nothing():
  images, labels = _data()
  classifier = jr.Classifier.from_function(lambda x: x.mean((1, 2)), 2)
  empty = jr.attack_images(jr.make_attack("fgsm"), classifier, images[:0], labels[:0], eps="8/255")
  assert repr(empty) == "AttackResult(0 images, 0 queries)"


def test_data_sets_and_cascades_are_one_line():
  assert repr(jr.load_data("digits32")) == "ArraySource('digits32', 500 examples, 10 classes)"
  assert repr(jr.make_attack("autoattack")) == "Cascade(autoattack, linf: apgd-ce, apgd-t × 9, fab-t × 9, square)"
