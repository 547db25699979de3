"""Votes in slots: the same answers wherever and however many are counted at once, refilled, stopped and continued."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.certify import vote_slots
from jaxrobust.certify.smoothing import Smoothed, Smoothing
from jaxrobust.certify.vote_slots import CHOOSING, COPIES, COUNTING, Ballot, More, Rule, Tally, VoteSlots
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError, StoppedError
from jaxrobust.data.source import ArraySource
from jaxrobust.evaluation.certify_data import certify_data
from jaxrobust.evaluation.context import ModelContext
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.results import save_partial
from jaxrobust.results.partial import partial_path

SMOOTHING = Smoothing(sigma=0.25, n0=2 * COPIES, n=12 * COPIES, alpha=0.01)
RADIUS = 0.1


def _logits(variables: dict[str, jax.Array], images: jax.Array) -> jax.Array:
  hidden = jax.nn.relu(
    jax.lax.conv_general_dilated(images, variables["kernel"], (2, 2), "SAME", dimension_numbers=_NHWC)
  )
  return hidden.reshape(len(images), -1) @ variables["head"]


_NHWC = ("NHWC", "HWIO", "NHWC")
_DRAW = np.random.default_rng(0)
CNN = Classifier.from_function(
  _logits,
  3,
  variables={
    "kernel": _DRAW.normal(size=(3, 3, 3, 8)).astype(np.float32),
    "head": _DRAW.normal(size=(128, 3)).astype(np.float32),
  },
  name="small cnn",
)
IMAGES = _DRAW.random((10, 8, 8, 3), np.float32)
LABELS = np.asarray(CNN(jnp.asarray(IMAGES)).argmax(-1))


def rules(form: str) -> list[Rule]:
  if form == "certify":
    return [SMOOTHING.certify_rule] * len(IMAGES)
  return [SMOOTHING.decide_rule(int(label), RADIUS) for label in LABELS]


def answers(form: str, slots: int | None, order: int = 1) -> list[Smoothed]:
  """What slots say of all images, in the order of images."""
  asked = rules(form)
  items = [Ballot(one, IMAGES[one], asked[one], Tally.empty(3)) for one in range(len(IMAGES))][::order]
  found = dict(itertools.chain(*SMOOTHING.slots(CNN, IMAGES.shape[1:], slots).run(items)))
  assert list(found) != list(range(len(IMAGES))) or order == 1
  return [found[one] for one in range(len(IMAGES))]


@pytest.mark.parametrize("form", ["certify", "decide"])
def test_answers_depend_on_no_slots_and_no_order(form: str) -> None:
  one = [
    SMOOTHING.certify(CNN, image, row) if form == "certify" else SMOOTHING.decide(CNN, image, int(label), row, RADIUS)
    for row, (image, label) in enumerate(zip(IMAGES, LABELS, strict=True))
  ]
  # Some are certain and some are not, and by sequences they take different numbers of copies.
  assert 0 < sum(found.radius > 0 for found in one) < len(one)
  assert form == "certify" or len({found.samples for found in one}) > 3
  assert answers(form, 1) == answers(form, 3) == answers(form, 8, order=-1) == answers(form, None) == one


def test_four_devices_count_the_same() -> None:
  here = "from tests.certify.test_vote_slots import answers, jax, json, vote_slots"
  said = "print(json.dumps([*(answers(form, 6) for form in ('certify', 'decide')), jax.device_count()"
  said += ", vote_slots._draw._cache_size()]))"
  done = subprocess.run(
    [sys.executable, "-c", f"{here}; {said}"],
    cwd=Path(__file__).parents[2],
    env={**os.environ, "JAX_NUM_CPU_DEVICES": "4"},
    capture_output=True,
    text=True,
    timeout=300,
    check=False,
  )
  assert done.returncode == 0, done.stderr[-2000:]
  alone = json.loads(json.dumps([answers(form, 1) for form in ("certify", "decide")]))
  assert json.loads(done.stdout) == [*alone, 4, 1], "one program counts for all"


def test_noise_is_a_function_of_seed_example_stream_and_copy() -> None:
  """Written out, so that stored numbers stay what they are."""
  for stream, start in ((CHOOSING, 0), (COUNTING, 3 * COPIES)):
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), 0x5307 + stream), 7)
    noise = [jax.random.normal(jax.random.fold_in(key, start + copy), (8, 8, 3)) for copy in range(COPIES)]
    named = np.asarray(CNN(IMAGES[0] + np.float32(0.25) * jnp.stack(noise)).argmax(-1))
    votes = SMOOTHING.count(CNN, IMAGES[0], 7, stream, start, COPIES)
    assert votes.tolist() == np.bincount(named, minlength=3).tolist()


def test_logits_that_are_no_numbers_vote_for_nobody() -> None:
  broken = Classifier.from_function(lambda x: jnp.log(x[:, 0, 0] - 0.5), num_classes=2)
  image = np.array([[[0.5, 9.0]]], np.float32)
  votes = Smoothing(sigma=0.25).count(broken, image, 0, COUNTING, 0, 4 * COPIES)
  assert votes[0] == 0 and 0.3 < votes[1] / (4 * COPIES) < 0.7


@pytest.fixture
def dispatches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
  """How many slots were at work in each dispatch."""
  live: list[int] = []
  draw = vote_slots._draw

  def counted(mesh, classifier, sigma, streams, images, words, votes):  # type: ignore[no-untyped-def]
    live.append(int((np.asarray(words)[:, 2] < np.asarray(words)[:, 3]).sum()))
    return draw(mesh, classifier, sigma, streams, images, words, votes)

  monkeypatch.setattr(vote_slots, "_draw", counted)
  return live


@pytest.mark.parametrize("slots", [1, 3, 8])
def test_a_decided_slot_is_refilled_at_once(dispatches: list[int], slots: int) -> None:
  """So all are at work until none waits, and from then on it takes no longer than the longest item."""
  needs = [3, 1, 1, 9, 2, 5, 1, 4, 1, 1, 7, 2]

  def rule(need: int) -> Rule:
    return lambda tally: "over" if tally.samples[COUNTING] >= need * COPIES else More(COUNTING, COPIES)

  model = Classifier.from_function(lambda x: x[:, 0, 0], num_classes=2)
  items = [Ballot(one, IMAGES[0], rule(need), Tally.empty(2)) for one, need in enumerate(needs)]
  found = list(itertools.chain(*VoteSlots(model, IMAGES.shape[1:], 0.25, 0, slots).run(items)))
  assert sorted(found) == [(one, "over") for one in range(len(needs))]
  assert sum(dispatches) == sum(needs)
  assert len(dispatches) <= (sum(needs) - max(needs)) / slots + max(needs)
  # Waves that wait for their longest take more.
  assert slots == 1 or len(dispatches) < sum(max(needs[at : at + slots]) for at in range(0, len(needs), slots))
  idle = [at for at, live in enumerate(dispatches) if live < slots]
  assert not idle or len(dispatches) - idle[0] <= max(needs)


def test_all_requests_are_one_program() -> None:
  before = vote_slots._draw._cache_size()  # type: ignore[attr-defined]
  model = Classifier.from_function(lambda x: x[:, 0, 0], num_classes=2)
  items = [Ballot(one, IMAGES[one], SMOOTHING.certify_rule, Tally.empty(2)) for one in range(8)]
  list(VoteSlots(model, IMAGES.shape[1:], 0.25, 0, 3).run(items))
  assert vote_slots._draw._cache_size() == before + 1  # type: ignore[attr-defined]


def test_what_needs_no_copies_and_what_is_refused() -> None:
  slots = VoteSlots(CNN, IMAGES.shape[1:], 0.25, 0, 2)
  assert list(slots.run([])) == [[]]
  assert list(slots.run([Ballot(4, IMAGES[0], lambda tally: "known", Tally.empty(3))])) == [[(4, "known")]]
  with pytest.raises(InputError, match="at least one slot"):
    VoteSlots(CNN, IMAGES.shape[1:], 0.25, 0, 0)


@pytest.mark.parametrize("search", [True, False])
def test_a_stopped_run_continues_with_what_is_not_decided(
  tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dispatches: list[int], search: bool
) -> None:
  data = ArraySource("rows", IMAGES, LABELS, 3)
  run, left = VoteSlots.run, [0]

  def stopping(self: VoteSlots, items: Iterator[Ballot]) -> Iterator[list]:
    for at, decided in enumerate(run(self, items)):
      if at == left[0]:
        signal.raise_signal(signal.SIGTERM)
      yield decided

  def certify(folder: str) -> bytes:
    result = certify_data(
      ModelContext(CNN), "m", data, str(RADIUS), tmp_path / folder, RunOptions(), search=search, smoothing=SMOOTHING
    )
    return result.cell.path(tmp_path / folder).read_bytes()

  # Fewer slots than images: some wait when the run is stopped.
  monkeypatch.setattr(vote_slots, "SLOTS", 4)
  left[0] = -1
  monkeypatch.setattr(VoteSlots, "run", stopping)
  whole = certify("whole")
  copies = sum(dispatches)
  dispatches.clear()
  stops = 0
  left[0] = 2
  while True:
    try:
      again = certify("stopped")
      break
    except StoppedError:
      stops += 1
      # More slots while there are votes of some that wait, and the other way round.
      monkeypatch.setattr(vote_slots, "SLOTS", (2, 8, 1)[stops % 3])
      left[0] = 5
  assert again == whole and stops >= 3
  assert sum(dispatches) == copies, "no copy is looked at twice"
  assert not list((tmp_path / "stopped").rglob("*.partial.npz"))


def test_progress_of_another_form_is_not_taken_up(tmp_path: Path) -> None:
  data = ArraySource("rows", IMAGES, LABELS, 3)

  def certify(folder: str):  # type: ignore[no-untyped-def]
    return certify_data(ModelContext(CNN), "m", data, "0.1", tmp_path / folder, RunOptions(), smoothing=SMOOTHING)

  whole = certify("whole")
  path = whole.cell.path(tmp_path / "old")
  path.parent.mkdir(parents=True)
  wrong = {"correct": np.zeros(10, bool), "radius": np.full(10, 9.0)}
  save_partial(path, whole.config, wrong, {"done": 7})
  certify("old")
  assert path.read_bytes() == whole.cell.path(tmp_path / "whole").read_bytes()
  assert not partial_path(path).exists()
