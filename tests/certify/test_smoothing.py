"""Votes: bounds that cover, radii that are true, decisions with few copies, runs that can be continued."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from jaxrobust.certify.confidence import ProbabilityTest, clopper_pearson
from jaxrobust.certify.smoothing import ABSTAIN, Smoothing
from jaxrobust.certify.vote_slots import COPIES
from jaxrobust.cli.main import main
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.data.source import ArraySource
from jaxrobust.defenses.stored import load_classifier
from jaxrobust.evaluation import certify_data as certifying
from jaxrobust.evaluation import certify_examples
from jaxrobust.evaluation.context import ModelContext
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.report.cell_rows import make_cell_row
from jaxrobust.report.documents import budget_curves
from jaxrobust.results.store import load_result

# Its smoothed form is certain of class 0 up to the true distance (x1 - x2) / sqrt(2), whatever sigma.
LINEAR = Classifier.from_function(lambda x: x[:, 0, 0], 2, name="linear")


def image_at(distance: float) -> np.ndarray:
  return np.array([[[0.5 + distance / np.sqrt(2), 0.5 - distance / np.sqrt(2)]]], np.float32)


@pytest.mark.smoke
def test_clopper_pearson_covers() -> None:
  draw = np.random.default_rng(0)
  for probability in (0.6, 0.95):
    counts, times = np.unique(draw.binomial(300, probability, size=2000), return_counts=True)
    bounds = np.array([clopper_pearson(int(count), 300, 0.05) for count in counts])
    wrong = float(times[bounds > probability].sum() / 2000)
    assert wrong <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2000)
    assert wrong > 0.01  # Not by being useless.
  with pytest.raises(InputError, match="say nothing"):
    clopper_pearson(5, 4, 0.1)


def test_a_sequence_of_looks_is_wrong_no_more_often_than_it_says() -> None:
  """At the very value nothing is true to prove: with a look after every vote, proofs are rarer than alpha. A fixed-n
  bound that is looked at as often is wrong far more often, so the simulation can tell."""
  draw = np.random.default_rng(1)
  alpha, looks, runs = 0.1, 160, 150
  for value in (0.5, 0.9):
    test = ProbabilityTest(value, alpha)
    votes = np.cumsum(draw.random((runs, looks)) < value, 1)
    # Likelihoods only change by votes: every fourth look bounds the time of this test.
    wrong = np.mean([any(test.proves(int(row[at]), at + 1) for at in range(3, looks, 4)) for row in votes])
    assert wrong <= alpha + 3 * np.sqrt(alpha * (1 - alpha) / runs), wrong
  naive = [any(clopper_pearson(int(row[at]), at + 1, alpha / 2) > 0.9 for at in range(19, looks, 20)) for row in votes]
  assert np.mean(naive) > alpha / 2


def test_radii_of_a_linear_classifier() -> None:
  smoothing = Smoothing(sigma=0.25, n=20 * COPIES, alpha=0.01)
  radii = [smoothing.certify(LINEAR, image_at(distance), 3).radius for distance in (0.1, 0.3)]
  assert 0.05 < radii[0] < 0.1 and 0.2 < radii[1] < 0.3
  assert smoothing.certify(LINEAR, image_at(0.001), 5).prediction == ABSTAIN
  # The same example has the same noise, in one piece or several.
  whole = smoothing.count(LINEAR, image_at(0.2), 7, 1, 0, 4 * COPIES)
  parts = [smoothing.count(LINEAR, image_at(0.2), 7, 1, start, 2 * COPIES) for start in (0, 2 * COPIES)]
  assert (whole == sum(parts)).all() and whole.sum() == 4 * COPIES


def test_a_decision_takes_a_tenth_of_the_copies() -> None:
  smoothing = Smoothing(sigma=0.25)  # 100,000 copies at the most, as in the paper.
  yes = smoothing.decide(LINEAR, image_at(0.35), 0, 1, 0.25)
  no = smoothing.decide(LINEAR, image_at(0.15), 0, 2, 0.25)
  assert yes.radius == 0.25 and no.prediction == ABSTAIN
  assert max(yes.samples, no.samples) <= smoothing.n / 10
  few = Smoothing(sigma=0.25, n=5 * COPIES).decide(LINEAR, image_at(0.251), 0, 1, 0.25)
  assert few.prediction == ABSTAIN and few.samples == 5 * COPIES  # Too near to tell.
  some = Smoothing(sigma=0.25, n=21 * COPIES).decide(LINEAR, image_at(0.25), 0, 1, 0.25)
  assert some.prediction == ABSTAIN and some.samples == 21 * COPIES  # Growing looks do not go beyond n.
  assert NormalDist().cdf(1) < 0.85
  # No votes prove a radius of so many sigmas.
  assert smoothing.decide(LINEAR, image_at(0.35), 0, 1, 3.0) == (ABSTAIN, 0.0, 0)
  with pytest.raises(InputError, match="at least 0"):
    smoothing.decide(LINEAR, image_at(0.35), 0, 1, float("nan"))


def test_cells_of_certificates(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
  monkeypatch.setattr(certify_examples, "_CHUNK", 2)
  images = np.stack([image_at(distance) for distance in (0.3, 0.05, 0.2, -0.1, 0.15)])
  data = ArraySource("rows", images, np.zeros(5, int), 2)
  options, smoothing = RunOptions(save_seconds=0.0), Smoothing(sigma=0.25, n=8 * COPIES, alpha=0.01)

  def certify(folder: str, **more):  # type: ignore[no-untyped-def]
    return certifying.certify_data(ModelContext(LINEAR), "m", data, "0.1", tmp_path / folder, options, **more)

  exact = certify("a", norm="l2")
  assert exact.examples["robust"].tolist() == [True, False, True, False, True]
  assert exact.cell.attack == "l2-certified-crown" and exact.cell.model == "m"
  assert abs(exact.examples["certified_radius"][2] - 0.2) < 0.01
  whole = certify("a", method="smoothing", smoothing=smoothing)
  assert (
    whole.cell.model == "m+smoothed-0.25" and whole.examples["robust"].tolist() == exact.examples["robust"].tolist()
  )

  few = certify("a", method="smoothing", smoothing=Smoothing(sigma=0.25, alpha=0.01), search=False)
  assert few.cell.attack == "l2-certified-smoothing-sequential" and few.cell.model == whole.cell.model
  assert few.examples["robust"].tolist() == exact.examples["robust"].tolist()
  assert few.examples["certified_radius"].tolist() == np.where(exact.examples["robust"], np.float32(0.1), 0).tolist()
  assert few.examples["correct"].tolist() == [True, True, True, False, True]

  # A page draws what is proved as a curve of its own, and ranks nobody by it.
  row = make_cell_row("a.json", exact)
  (curve,) = budget_curves([row])
  assert not row.adaptive and curve["attack"] == "l2-certified-crown" and curve["points"][0] == [0.0, 80.0]
  assert curve["proved"]

  class KilledError(Exception):
    """Stands for a process that ends."""

  def interrupted(done: float, text: str = "") -> None:
    if done > 0.7:
      raise KilledError

  with pytest.raises(KilledError):
    certify("b", method="smoothing", smoothing=smoothing, progress=interrupted)
  again = certify("b", method="smoothing", smoothing=smoothing)
  assert again.cell.path(tmp_path / "b").read_bytes() == whole.cell.path(tmp_path / "a").read_bytes()
  assert not list((tmp_path / "b").rglob("*.partial.npz"))
  assert (
    load_result(again.cell.path(tmp_path / "b")).examples["certified_radius"].tolist()
    == whole.examples["certified_radius"].tolist()
  )


def test_the_command_names_what_it_needs(tmp_path, capsys) -> None:  # type: ignore[no-untyped-def]
  assert main(["certify"]) != 0
  assert "no model" in capsys.readouterr().err
  images = np.zeros((2, 32, 32, 3), np.float32)
  labels = (np.asarray(load_classifier("digits32-standard")(images)).argmax(1) + 1) % 10
  np.savez(tmp_path / "wrong.npz", images=images, labels=labels)
  command = ["certify", "--model=digits32-standard", f"--data=npz:{tmp_path}/wrong.npz", f"--out={tmp_path}"]
  assert main([*command, "--method=guess"]) != 0
  assert "crown-ibp, ibp, kw, smoothing" in capsys.readouterr().err
  # No image is right, so that there is no median of what is certified.
  assert main([*command, "--method=ibp", "--search=false", "--quiet"]) == 0
  assert "0.00 % right, 0.00 % certified" in capsys.readouterr().out
