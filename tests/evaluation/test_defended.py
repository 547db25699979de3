"""Defended classifiers through the engine: attacked by their adaptive view, judged as they are, told apart on disk."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.cli import attack as attack_command
from jaxrobust.cli import evaluate as evaluate_command
from jaxrobust.cli import list as list_command
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.defenses.registry import defended_by
from jaxrobust.engine.options import EngineOptions
from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.suites import attack_entry, clean_entry
from jaxrobust.evaluation.suites.suite import Setting, make_suite
from jaxrobust.evaluation.suites.summary import summarize_suite, summary_name
from jaxrobust.models.zoo import save_classifier
from jaxrobust.report.boards import make_boards
from jaxrobust.report.cell_rows import read_cell_rows
from jaxrobust.report.defense_documents import defense_documents
from jaxrobust.results.folder import open_folder
from jaxrobust.results.query import query

RNG = np.random.default_rng(0)
WEIGHTS = jnp.asarray(RNG.normal(size=(8 * 8 * 3, 3)), jnp.float32)
IMAGES = RNG.uniform(0.1, 0.9, (24, 8, 8, 3)).astype(np.float32)


def linear(weights, images):
  return images.reshape(len(images), -1) @ weights


NETWORK = Classifier.from_function(linear, 3, variables=WEIGHTS, name="linear")
LABELS = np.asarray(NETWORK(jnp.asarray(IMAGES)).argmax(1))
PGD = attack_entry("pgd", "12/255", num_steps=5)


def reported(defense, out, entries=(PGD,), slots=8, **more):
  options = RunOptions(EngineOptions.for_platform(slots), quiet=True)
  return evaluate(NETWORK, (IMAGES, LABELS), entries, defense=defense, out=out, options=options, **more)


def run(*args, **more):
  return [cell.result for cell in reported(*args, **more).cells]


def test_adaptive_attacks_break_what_a_naive_gradient_cannot(tmp_path):
  [adaptive] = run("bit-depth,levels=16", tmp_path)
  [naive] = run("bit-depth,levels=16", tmp_path, oblivious="gradient")
  [images] = run("bit-depth,levels=16", tmp_path, oblivious="images")
  for result in (naive, images):
    assert adaptive.summary["robust"] <= result.summary["robust"]
    assert result.config["model_fingerprint"] == adaptive.config["model_fingerprint"]
    assert "oblivious" in [finding["kind"] for finding in result.findings]
  assert adaptive.summary["robust"] < naive.summary["robust"]
  assert "zero-gradient" in [finding["kind"] for finding in naive.findings]
  assert not {"zero-gradient", "oblivious", "disagreement"} & {finding["kind"] for finding in adaptive.findings}
  assert adaptive.summary["accuracy"] == naive.summary["accuracy"] == images.summary["accuracy"]
  assert [result.cell.attack for result in (adaptive, naive, images)] == [
    "linf-pgd-5", "oblivious:gradient:linf-pgd-5", "oblivious:images:linf-pgd-5"
  ]  # fmt: skip
  assert {result.cell.model for result in (adaptive, naive, images)} == {"model+bit-depth,levels=16"}
  assert adaptive.provenance["model"]["defense"] == "bit-depth,levels=16"
  assert images.config["transfer"]["source_fingerprint"] != images.config["model_fingerprint"]


def test_verdicts_are_those_of_the_defended_classifier(tmp_path):
  defended = defended_by(NETWORK, "jpeg,quality=30")
  [clean] = run("jpeg,quality=30", tmp_path, [clean_entry()])
  right = np.asarray(defended(jnp.asarray(IMAGES)).argmax(1)) == LABELS
  np.testing.assert_array_equal(clean.examples["correct"], right)
  assert 0 < right.mean() < 1


@pytest.mark.ci
def test_randomized_defenses_give_an_example_the_same_verdict_in_any_batch(tmp_path):
  one, other = (run("r&p,smallest=0.6", tmp_path / str(slots), slots=slots)[0] for slots in (8, 3))
  for name in ("correct", "robust", "prediction", "queries"):
    np.testing.assert_array_equal(one.examples[name], other.examples[name])
  [naive] = run("r&p,smallest=0.6", tmp_path / "8", oblivious="gradient")
  assert naive.config["samples"] == [1, 20] and one.config["samples"] == 20


def test_attacks_without_gradients_have_nothing_to_ignore(tmp_path):
  square = attack_entry("square", "12/255", num_steps=5)
  [plain] = run("jpeg", tmp_path, [square])
  [same] = run("jpeg", tmp_path, [square], oblivious="gradient")
  assert plain.cell == same.cell and plain.examples["robust"].tolist() == same.examples["robust"].tolist()


def test_what_cannot_be_ignored_is_refused(tmp_path):
  with pytest.raises(InputError, match="no defense to be oblivious of"):
    run("", tmp_path, oblivious="images")
  with pytest.raises(InputError, match="in groups of its own"):
    make_suite("ares-defenses", Setting("cifar10", ignorable=("images",))).oblivious("images")
  with pytest.raises(UnknownNameError, match="did you mean 'gradient'"):
    run("jpeg", tmp_path, oblivious="gradiant")
  with pytest.raises(InputError, match="smallest perturbation"):
    run("jpeg", tmp_path, [attack_entry("ddn", norm="l2")], oblivious="images")


def test_a_network_that_draws_by_itself_has_a_naive_gradient_of_one_draw(tmp_path):
  noisy = lambda weights, images, key: linear(weights, images + 0.2 * jax.random.normal(key, images.shape))
  network = Classifier.from_function(noisy, 3, variables=WEIGHTS, randomized=True, name="noisy")

  def attacked(oblivious):
    options = RunOptions(EngineOptions.for_platform(8), quiet=True)
    data = IMAGES[:4], LABELS[:4]
    return evaluate(network, data, (PGD,), out=tmp_path, options=options, oblivious=oblivious).cells[0].result

  naive = attacked("gradient")
  assert naive.config["samples"] == [1, 20] and "oblivious" in [finding["kind"] for finding in naive.findings]
  with pytest.raises(InputError, match="no defense to be oblivious of"):
    attacked("images")


def test_pages_and_queries_keep_oblivious_cells_apart(tmp_path):
  both = [reported("jpeg", tmp_path, [clean_entry(), PGD], oblivious=way) for way in ("", "images")]
  rows = read_cell_rows(open_folder(tmp_path))
  assert [report.suite.name for report in both] == ["entries", "oblivious:images:entries"]
  assert len({summary_name(report) for report in both}) == 2
  [board] = make_boards(rows.rows)
  assert [column.key for column in board.columns] == ["worst", "clean", "linf-pgd-5"]
  [table] = defense_documents(rows.by_model())
  assert (table["attack"], len(table["rows"])) == ("linf-pgd-5@12/255", 1)
  model, clean, adaptive, naive, images = table["rows"][0]
  assert model == 0 and naive is None and clean[0] >= images[0] >= adaptive[0]
  sql = "select attack, oblivious, defense, norm from cells where attack != 'none' order by attack"
  rows = [tuple(row) for row in query(tmp_path, sql).fillna("").itertuples(index=False)]
  assert rows == [("linf-pgd-5", "", "jpeg", "linf"), ("oblivious:images:linf-pgd-5", "images", "jpeg", "linf")]


@pytest.mark.ci
def test_the_matrix_of_ares_has_a_row_for_every_defense(tmp_path):
  options = RunOptions(EngineOptions.for_platform(8), quiet=True)
  # Starting points of decision attacks are images of other classes: two of each that the defended network knows.
  network = Classifier.from_function(linear, 3, variables=WEIGHTS - WEIGHTS.mean(0), name="balanced")
  labels = np.asarray(defended_by(network, "jpeg")(jnp.asarray(IMAGES)).argmax(1))
  mixed = np.concatenate([np.flatnonzero(labels == label)[:2] for label in np.unique(labels)])
  assert len(np.unique(labels)) > 1
  few = IMAGES[mixed], labels[mixed]
  report = evaluate(network, few, "ares-defenses,small", defense="jpeg", out=tmp_path, options=options)
  summary = summarize_suite(report)
  assert set(summary["tables"]) == {"clean", "white-box", "score", "decision", "transfer", "naive"}
  least = min(
    number["value"]
    for table in ("white-box", "score")
    for name, number in summary["tables"][table].items()
    if name.startswith("linf")
  )
  assert summary["metrics"]["worst of all adaptive attacks, linf"]["value"] <= least
  plain = make_suite("ares-defenses,small", Setting("digits32"))
  assert [part.group for part in plain.parts] == ["clean", "white-box", "score", "decision"]
  whole = [entry.title for part in make_suite("ares-defenses", Setting("cifar10")).parts for entry in part.entries]
  assert "linf-bim-20,step_size=0.15@8/255" in whole and "l2-boundary-20000@1.0" in whole


@pytest.fixture
def folder(tmp_path):
  from jaxrobust.models.registry import make_model

  variables = make_model("cnn-a").init(jax.random.key(0), np.zeros((1, 32, 32, 3), np.float32))
  return save_classifier(tmp_path / "net", "cnn-a", variables, num_classes=10)


def test_the_commands_take_defenses(folder, tmp_path, capsys):
  shared = [f"--model={folder}", "--data=digits32", "--n=8", "--quiet", "--defense=jpeg,quality=50+bit-depth"]
  out = tmp_path / "results"
  assert evaluate_command.run([*shared, f"--out={out}", "--suite=clean"]) == 0
  [cell] = (out / "net+jpeg%2Cquality%3D50+bit-depth").rglob("none.n8.seed0.json")
  assert "--defense=jpeg,quality=50+bit-depth" in cell.read_text()
  found = tmp_path / "found.npz"
  more = ["--options.num_steps=2", "--attack=pgd", f"--out={found}", "--oblivious=gradient"]
  assert attack_command.run([*shared, *more]) == 0 and found.is_file()
  with pytest.raises(InputError, match="evaluate has images"):
    attack_command.run([*shared, "--oblivious=images"])
  with pytest.raises(InputError, match="no defense whose naive gradient"):
    attack_command.run([*shared[:-1], "--oblivious=gradient"])
  capsys.readouterr()
  assert list_command.run(["defenses"]) == 0
  assert "JPEG compression with a quality from 1 to 100. [BPDA]" in capsys.readouterr().out
