"""Starting points come from the whole data set: an example's verdict is the same however few are attacked beside it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from jaxrobust.attacks.by_yield import ByYield
from jaxrobust.attacks.schedule import Cascade
from jaxrobust.data.encoded import EncodedSource, image_folder
from jaxrobust.data.registry import load_data
from jaxrobust.data.source import ArraySource
from jaxrobust.data.subsets import first_of, pinned, whole_of
from jaxrobust.data.tfds import TfdsSource
from jaxrobust.engine.options import EngineOptions
from jaxrobust.evaluation.attack_job import start_pool
from jaxrobust.evaluation.audit_job import phase
from jaxrobust.evaluation.conditions import under
from jaxrobust.evaluation.context import ModelContext
from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.kinds import make_job
from jaxrobust.evaluation.suite_jobs import find_jobs
from jaxrobust.evaluation.suites import attack_entry, targeted
from jaxrobust.evaluation.suites.suite import Setting, attack_set
from jaxrobust.evaluation.targets import among
from tests.evaluation.digits_model import digits_classifier

OPTIONS = RunOptions(EngineOptions.for_platform(8), quiet=True)


def digits(sort: bool) -> ArraySource:
  images, labels = load_data("digits32").take(np.arange(60))
  rows = np.argsort(labels, kind="stable") if sort else np.arange(60)
  return ArraySource("digits", images[rows], labels[rows], 10)


def pictures() -> EncodedSource:
  return EncodedSource("pictures", None, [f"{i}.png" for i in range(60)], np.arange(60) // 6, 10)  # type: ignore[arg-type]


def rows_of(source) -> list[int]:
  """The examples of a source, each by a label of its own."""
  if isinstance(source, EncodedSource):
    return [int(file.split(".")[0]) for file in source.files]
  return [rows_of(source.source)[i] for i in source.ids] if hasattr(source, "ids") else source.labels.tolist()


ROWS = np.zeros((60, 1, 1, 1), np.uint8)
SOURCES = {
  "array": lambda: ArraySource("rows", ROWS, np.random.default_rng(0).permutation(60), 60),
  "sorted array": lambda: ArraySource("rows", ROWS, np.arange(60), 60),
  "pictures": pictures,
  "pinned": lambda: pinned(ArraySource("rows", ROWS, np.random.default_rng(0).permutation(60), 60), 30),
  "pinned pictures": lambda: pinned(pictures(), 30),
}


@pytest.mark.parametrize("name", SOURCES)
def test_the_whole_is_the_same_for_all_subsets_and_begins_with_them(name):
  source = SOURCES[name]()
  whole = rows_of(whole_of(source))
  assert sorted(whole) == list(range(60))
  for n in (1, 7, 30):
    part = source.subset(n)
    assert rows_of(whole_of(part)) == rows_of(whole_of(part.subset(1))) == whole
    assert rows_of(part) == whole[:n]
    assert rows_of(whole_of(part, 20)) == whole[:20] and whole_of(part, 20).name.startswith(source.name.split("@")[0])


def test_the_whole_of_views_and_of_what_is_read_otherwise():
  seen = pictures().subset(4).seen_at("resize64-crop56")
  assert seen.whole.preprocessing == "resize64-crop56" and len(seen.whole) == 60
  assert pictures().subset(4).without([0]).whole is None, "what was left out is not brought back"
  noisy = among(under(digits(True).subset(5), "fog-3"), 20)
  whole = whole_of(noisy)
  assert (len(whole), whole.num_classes, whole.condition) == (60, 20, "fog-3-t32")
  np.testing.assert_array_equal(whole.take(np.arange(5))[0], noisy.take(np.arange(5))[0])
  tfds = TfdsSource("tfds:rows", [{"image": ROWS[0], "label": 0}] * 60, 10, 60)
  assert len(whole_of(tfds.subset(3))) == 60 and len(whole_of(tfds.subset(3), 9)) == 9


ENTRIES = {
  "a start of the target": (targeted(attack_entry("boundary", "4", queries=60)), False),
  "a start, sorted by class": (targeted(attack_entry("boundary", "4", queries=60)), True),
  "images of other classes": (attack_entry("admix", "0.05", num_steps=3), True),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_fewer_examples_beside_it_leave_a_verdict_as_it_is(tmp_path, name):
  entry, sort = ENTRIES[name]
  verdicts, starts = {}, {}
  for n in (3, 12, 60):
    out = tmp_path / str(n)
    (result,) = evaluate(digits_classifier(), digits(sort), [entry], n=n, name="m", out=out, options=OPTIONS).results
    rows = slice(None) if n < 60 or not sort else digits(sort).order
    verdicts[n] = {part: np.asarray(column)[rows] for part, column in result.examples.items()}
    starts[n] = result.config["starts"]
  assert len(set(starts.values())) == 1
  for few, many in ((3, 12),) if sort else ((3, 12), (12, 60)):
    for part, column in verdicts[few].items():
      np.testing.assert_array_equal(column, verdicts[many][part][:few], err_msg=f"{part}: {few} and {many}")


def test_pictures_read_by_another_decoder_have_a_whole(tmp_path):
  images, labels = load_data("digits32").take(np.arange(30))
  for row, (image, label) in enumerate(zip(images, labels, strict=True)):
    (tmp_path / str(label)).mkdir(exist_ok=True)
    Image.fromarray((255 * image).astype(np.uint8)).save(tmp_path / str(label) / f"{row}.png")
  part = under(image_folder(tmp_path, preprocessing="none").subset(4), "system-pil-pil-nearest")
  whole = whole_of(part)
  assert len(whole) == 30
  np.testing.assert_array_equal(whole.take(np.arange(4))[0], part.take(np.arange(4))[0])


class OwnSource:
  """Somebody's data set: nothing but what a source must have."""

  name, num_classes = "own", 10

  def __init__(self, rows: int = 40):
    self.rows = rows

  def __len__(self) -> int:
    return self.rows

  def take(self, ids):
    return load_data("digits32").take(np.asarray(ids))

  def fingerprint(self) -> str:
    return f"own {self.rows}"

  def subset(self, n: int) -> OwnSource:
    return OwnSource(n)


def test_sources_that_know_of_no_whole_are_remembered():
  part = first_of(OwnSource(), 12)
  assert (part.name, len(part), part.fingerprint(), len(whole_of(part))) == ("own", 12, "own 12", 40)
  for other in (first_of(part, 3), under(part, "fog-3"), first_of(under(OwnSource(), "fog-3"), 3)):
    assert len(whole_of(other)) == 40
  assert whole_of(part, 20).fingerprint() == "own 20"
  assert first_of(digits(False), 3).whole is not None and isinstance(first_of(digits(False), 3), ArraySource)


def test_jobs_of_own_sources_begin_at_one_pool(tmp_path):
  context, entry = ModelContext(digits_classifier()), targeted(attack_entry("boundary", "4", queries=60))
  suite = attack_set(Setting.of("own", "l2", "4"), [entry])
  few, many = (find_jobs(suite, context, "m", OwnSource(), n, tmp_path, OPTIONS).jobs[0] for n in (3, 12))
  assert few.config["starts"] == many.config["starts"]
  assert [len(start_pool(job.data, (32, 32, 3))) for job in (few, many)] == [40, 40]


def test_a_stage_without_starts_shares_the_cell_that_it_has_alone(tmp_path):
  stages = [attack_entry("pgd", "4", norm="l2"), attack_entry("boundary", "4", queries=60)]
  cascade = Cascade(tuple(one.schedule.stages[0] for one in stages))
  entry = replace(stages[0], schedule=ByYield(cascade, 10), attack="l2-by-yield")
  made = lambda one: make_job(ModelContext(digits_classifier()), "m", digits(False), one, tmp_path, OPTIONS)
  assert "starts" in made(entry).config
  for one in stages:
    alone = phase(made(entry), one.schedule)
    assert alone.config == made(one).config and alone.path == made(one).path
