"""A run over cells: one program for all, the paper's layout under both readings, and the same files after a kill."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import jax
import numpy as np
import pytest

from jaxrobust.cli.configuration import parse
from jaxrobust.cli.nas import RUN
from jaxrobust.core.errors import InputError
from jaxrobust.core.nas_cells import operations_of
from jaxrobust.data.registry import load_data
from jaxrobust.data.source import ArraySource
from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.nas.measured import MeasureRun
from jaxrobust.evaluation.nas.readings import read_as
from jaxrobust.evaluation.nas.run import LoadedCells, NasRun
from jaxrobust.models.families.nas_bench_201 import normalization
from jaxrobust.models.zoo import load_classifier
from jaxrobust.nas.one_program import OneProgram
from jaxrobust.nas.table import load_table
from jaxrobust.nas.trainer import CellTrainer, load_cell
from jaxrobust.results import load_results
from jaxrobust.training.config import make_train_config
from tests.cli.calling import call, files, refused

ROOT = pathlib.Path(__file__).parents[2]
pytestmark = pytest.mark.ci
# The clean pass and FGSM: two programs.
WORDS = ("nas", "run", "--config", f"{ROOT}/configs/nas.py:runlocal", "--only=*/clean/*[ng][es]*", "--batch_size=16")
TINY = ("--train.arch_options.width=2", "--train.epochs=0.2", "--n=24")
PROGRAM = OneProgram(2, 1)


class Compiled:
  """How many programs were compiled."""

  def __init__(self):
    self.count = 0
    jax.monitoring.register_event_duration_secs_listener(self._listen)

  def _listen(self, event, _, **more):
    self.count += event.endswith("backend_compile_duration")


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
  """The folder of a run over three cells, and how many programs each of two calls compiled."""
  out, compiled, counts = tmp_path_factory.mktemp("nas") / "run", Compiled(), []
  for cells in ("13714", "13714,0,11"):
    before = compiled.count
    code, said, err = call(*WORDS, *TINY, f"--cells={cells}", f"--out={out}", "--quiet")
    assert code == 0, err
    counts.append(compiled.count - before)
  return out, counts, said


def dataset(out):
  return {str(name): path.read_bytes() for name, path in files(out / "dataset").items()}


def test_the_first_cell_compiles_for_all(ran):
  out, (first, others), _ = ran
  # Of two more cells: the step of a trainer of its own, and drawing the weights of layers with new shapes.
  assert first > others and len(list((out / "models").glob("*/classifier.json"))) == 3
  attacks = [read for read in load_results(out / "results") if read.cell.attack != "none"]
  assert len(attacks) == 3 * (2 + 2)
  compiled = Compiled()
  # Width and depth are those that cells were saved with, whatever a recipe says.
  words = ("--n=24", "--cells=0,11", f"--out={out}-again", f"--models={out / 'models'}", "--quiet")
  code, _, err = call(*WORDS, *words)
  assert code == 0, err
  assert compiled.count == 0


def test_the_layout_is_the_paper_s_under_both_readings(ran):
  out = ran[0]
  for reading in ("first-success", "foolbox"):
    table = load_table(out / "dataset" / reading, "digits32")
    assert table.ids.tolist() == [0, 11, 13714] and table.attacks() == ["fgsm@0.5", "fgsm@4"]
    meta = json.loads((out / "dataset" / reading / "meta.json").read_text())
    assert len(meta["ids"]) == 15625 and meta["epsilons"] == {"fgsm@Linf": [0.5, 4.0]}
    assert meta["protocol"]["reading"] == reading and meta["protocol"]["n"] == 24
    assert meta["protocol"]["network"] == {"width": 2, "depth": 1, "num_classes": 10}
    confusion = json.loads((out / "dataset" / reading / "digits32" / "fgsm@Linf_cm.json").read_text())
    assert np.shape(confusion["digits32"]["fgsm@Linf"]["cm"]["0"]) == (2, 10, 10)


def test_foolbox_reads_the_last_point_of_every_image(ran):
  out = ran[0]
  results = [one for one in load_results(out / "results") if one.cell.model == "nb201-0"]
  ours, theirs = ({one.cell.id: one for one in read_as(name, results)} for name in ("first-success", "foolbox"))
  assert ours.keys() == theirs.keys()
  data = load_data("digits32").subset(24)
  images, labels = data.take(np.arange(24))
  model = load_classifier(out / "models" / "nb201-0")
  loss = lambda x: -jax.nn.log_softmax(model(x))[np.arange(24), labels].sum()
  for eps in (0.5, 4):
    moved = np.clip(images + eps / 255 * np.sign(jax.grad(loss)(images)), 0, 1)
    right = np.asarray(model(moved)).argmax(1) == labels
    cell = f"linf-fgsm@{eps}/255"
    assert theirs[cell].summary["robust_accuracy"] == pytest.approx(right.mean(), abs=1e-6)
    assert ours[cell].summary["robust_accuracy"] <= theirs[cell].summary["robust_accuracy"] + 1e-6


def test_verdicts_are_those_of_the_native_network(ran):
  out, data = ran[0], load_data("digits32").subset(24)
  by_cell = {one.cell.id: one for one in load_results(out / "results") if one.cell.model == "nb201-11"}
  native = evaluate(out / "models" / "nb201-11", data, "nas-cell,small", options=RunOptions(quiet=True),
                    only="*/clean/*[ng][es]*")  # fmt: skip
  for result in native.results:
    for name in ("correct", "robust", "prediction"):
      np.testing.assert_array_equal(result.examples[name], by_cell[result.cell.id].examples[name])


def test_a_run_again_computes_nothing_and_shares_make_the_same_files(ran, tmp_path):
  out = ran[0]
  before = {name: path.stat().st_mtime_ns for name, path in files(out / "results").items()}
  for index in (0, 1):
    words = (
      *WORDS,
      *TINY,
      "--cells=13714,0,11",
      f"--out={tmp_path / 'shared'}",
      f"--models={out / 'models'}",
      "--quiet",
    )
    code, said, err = call(*words, f"--index={index}", "--shares=2")
    assert code == 0, err
    assert ("still at work" in said) == (index == 0)
  ours, theirs = dataset(out), dataset(tmp_path / "shared")
  data = [name for name in ours if not name.endswith("meta.json")]
  assert ours.keys() == theirs.keys() and all(ours[name] == theirs[name] for name in data)
  assert {name: path.stat().st_mtime_ns for name, path in files(out / "results").items()} == before


def test_a_trained_cell_is_read_back_and_another_is_refused(ran):
  folder = ran[0] / "models" / "nb201-11"
  wide = load_cell(PROGRAM, 11, folder)
  native = load_classifier(folder).variables["module"]
  back = PROGRAM.narrow(operations_of(11), wide.variables["module"])
  assert jax.tree.all(jax.tree.map(np.array_equal, back, native))
  assert load_cell(PROGRAM, 11, folder / "nothing") is None
  with pytest.raises(InputError, match="not nb201-11 as"):
    load_cell(OneProgram(4, 1), 11, folder)
  refused(3, "another config", *WORDS, *TINY, "--cells=11", f"--out={ran[0]}", "--train.learning_rate=0.2")


def test_a_cell_trained_on_smaller_images_takes_those(tmp_path):
  # As ImageNet16-120 has them; a network as such is made for 32 pixels.
  rng = np.random.default_rng(0)
  np.savez(tmp_path / "small.npz", images=rng.integers(0, 256, (8, 8, 8, 3), np.uint8), labels=np.arange(8) % 2)
  recipe = {"arch": "nb201-0", "arch_options": {"width": 2, "depth": 1}, "data": f"npz:{tmp_path / 'small.npz'}"}
  trainer = CellTrainer(make_train_config({**recipe, "epochs": 1.0, "batch_size": 8, "techniques": ()}))
  one = trainer.train(0, tmp_path / "model")
  native, images = load_classifier(tmp_path / "model"), trainer._data.take(np.arange(8))[0]
  assert native.input_shape == (8, 8, 3)
  np.testing.assert_allclose(native(images), one(images), atol=1e-5)


@pytest.mark.parametrize(("data", "classes"), [("cifar100", 100), ("imagenet16-120", 120)])
def test_other_data_sets_have_the_benchmark_s_normalization_however_cells_come(tmp_path, monkeypatch, data, classes):
  # 16 pixels, as ImageNet16-120 has them.
  images, labels = np.random.default_rng(0).integers(0, 256, (8, 16, 16, 3), np.uint8), np.arange(8)
  source = ArraySource(f"{data}-train", images, labels, classes)
  monkeypatch.setattr("jaxrobust.nas.trainer.training_data", lambda *_: source)
  asked = parse("nas", ["--config", f"{ROOT}/configs/nas.py:published-{data}", "--train.epochs=1.0"], RUN, "")
  config = asked.train.to_dict()
  assert (asked.data, config["data"], config["decay"], config["seed"]) == (data, f"{data}-train", "all", 777)
  assert config["options"] == ({"pad-crop-flip": {"padding": 2}} if data == "imagenet16-120" else {})
  config |= {"arch": "nb201-0", "arch_options": {"width": 2, "depth": 1}, "batch_size": 8}
  trainer = CellTrainer(make_train_config(config))
  trained = trainer.train(11, tmp_path / "nb201-11")
  native, loaded = load_classifier(tmp_path / "nb201-11"), LoadedCells(trainer.program, tmp_path).train(11)
  mean, std = normalization(data)
  assert mean[0] == pytest.approx({"cifar100": 129.3, "imagenet16-120": 122.68}[data] / 255)
  for one in (trained, native, loaded):
    np.testing.assert_allclose(one.variables["mean"], mean, rtol=1e-6)
    np.testing.assert_allclose(one.variables["std"], std, rtol=1e-6)
  shown = source.take(np.arange(8))[0]
  np.testing.assert_allclose(native(shown), loaded(shown), atol=1e-5)


def test_measures_of_trained_cells_and_of_their_beginnings(ran, tmp_path):
  words = ("--data=digits32", "--n=8", "--measures=jacobian", "--projections=0", f"--out={tmp_path / 'rows.jsonl'}")
  models = f"--models={ran[0] / 'models'}"
  measured = lambda cells, *more: call("nas", "measure", f"--cells={cells}", models, *words, *more)
  code, out, err = measured("0,11")
  assert code == 0, err
  rows, file = [json.loads(line) for line in out.splitlines()], tmp_path / "rows.jsonl"
  assert file.read_text() == out and [row["uid"] for row in rows] == [0, 11]
  assert all(row["jacobian gradients"] == row["jacobian init gradients"] == 10 and row["jacobian"] > 0 for row in rows)
  assert all(row["jacobian"] != row["jacobian init"] for row in rows)
  # A line that was cut off is measured again, whole ones are taken as they are, other measurements are refused.
  marked = out.replace(str(rows[0]["jacobian"]), "7.5")
  file.write_text(marked[:-9])
  code, again, err = measured("0,11,13714")
  assert code == 0 and again == file.read_text() == marked + again.splitlines()[2] + "\n", err
  code, _, err = measured("0", "--batches=2")
  assert code == 3 and "other measurements" in err
  # Over batches of equal size exact norms have the mean that they have over all images.
  code, halves, err = call("nas", "measure", "--cells=11", models, *words[:-1], "--batches=2")
  assert json.loads(halves)["jacobian"] == pytest.approx(rows[1]["jacobian"], rel=1e-5)


def test_bad_requests_are_refused_before_anything_is_trained(tmp_path):
  few = tmp_path / "few.npz"
  np.savez(few, images=np.zeros((32, 8, 8, 3), np.uint8), labels=np.arange(32) % 2)
  for reason, *words in (
    ("say which cells",),
    ("not 'nought'", "--cells=nought"),
    ("15625", "--cells=15625"),
    ("index must be", "--cells=1", "--index=2", "--shares=2"),
    ("cells of 2 classes cannot be evaluated on digits32: 10", "--cells=1", f"--train.data=npz:{few}"),
    ("averages weights", "--cells=1", "--train.techniques=ema"),
    ("no cell of nas-cell matches", "--cells=1", "--only=nothing"),
  ):
    refused(2, reason, *WORDS, f"--out={tmp_path / 'run'}", *words)


@pytest.mark.parametrize(
  ("side", "suite", "reason"),
  [(32, "nas-cell,small", "cifar10-c: "), (16, "nas-cell,small,generated", "at least 32x32")],
)
def test_data_that_cannot_be_had_are_refused_before_anything_is_trained(tmp_path, monkeypatch, side, suite, reason):
  monkeypatch.setenv("JAXROBUST_DATASETS", str(tmp_path))
  source = ArraySource("cifar10", np.zeros((4, side, side, 3), np.float32), np.arange(4), 10)
  asked = NasRun((0,), LoadedCells(PROGRAM, tmp_path), source, suite, tmp_path / "run", RunOptions(quiet=True))
  with pytest.raises(InputError, match=reason):
    asked.check()


def test_measures_of_other_classes_are_refused(tmp_path):
  source = ArraySource("two", np.zeros((4, 8, 8, 3), np.float32), np.arange(4) % 2, 2)
  with pytest.raises(InputError, match="cells of 10 classes cannot be evaluated on two: 2"):
    MeasureRun((0,), PROGRAM, None, source, ("jacobian",))


def test_killed_in_the_middle_it_ends_with_identical_files(ran, tmp_path):
  out = tmp_path / "killed"
  words = (*WORDS, *TINY, "--cells=13714,0,11", f"--out={out}", "--save_seconds=0", "--train.save_every=3")
  again = lambda **more: (
    subprocess.run(
      [sys.executable, "-m", "tests.evaluation.killable_nas", *words], env={**os.environ, **more}, cwd=ROOT
    ).returncode
  )
  # In the training of the first cell, inside its evaluation, and in the training of the second.
  assert again(KILL_TRAINING="4") == -signal.SIGKILL and (out / "models" / "nb201-13714" / "checkpoints").is_dir()
  assert again(KILL_AFTER="2") == -signal.SIGKILL
  assert again(KILL_TRAINING="5") == -signal.SIGKILL
  assert again() == 0
  ours, theirs = dataset(ran[0]), dataset(out)
  assert ours == theirs
