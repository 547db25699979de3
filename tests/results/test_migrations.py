"""Earlier schemas are read as the present one, step by step, and rewritten only when asked."""

import dataclasses
import json

import pytest

from jaxrobust.core.errors import CorruptFileError
from jaxrobust.results import cell as cell_module
from jaxrobust.results import load_result, load_results, to_text
from jaxrobust.results.cell import SCHEMA, from_text
from jaxrobust.results.ids import threat_name
from jaxrobust.results.migrations import MIGRATIONS, migrate
from jaxrobust.results.reader import migrate_folder

RECORD = {"schema": 0, "model": "net", "data": "cifar10", "n": 10000, "accuracy": 0.9}


def test_a_record_becomes_a_cell():
  attacked = {**RECORD, "attack": "linf-autoattack", "eps": "8/255", "robust_accuracy": 0.4567, "source": "table 2"}
  result = from_text(json.dumps(attacked))
  assert result.cell.id == "linf-autoattack@8/255" and result.schema == SCHEMA
  assert result.summary == {"n": 10000, "accuracy": 0.9, "correct": 9000, "robust_accuracy": 0.4567, "robust": 4567}
  assert result.config["imported"]["source"] == "table 2" and not result.examples
  assert to_text(from_text(to_text(result))) == to_text(result)


@pytest.mark.parametrize(
  ("change", "reason"),
  [
    ({"accuracy": 90}, "expected a fraction"),
    ({"accuracy": True}, "expected a fraction"),
    ({"accuracy": None}, "needs n and an accuracy"),
    ({"attack": "linf-pgd"}, "needs n and an accuracy"),
    ({"n": None}, "needs n"),
    ({"n": 0}, "n must be an integer"),
    ({"model": 3}, "model must be a name"),
    ({"acuracy": 1}, "no entry acuracy"),
    ({"eps": "<b>"}, "eps must be text"),
    ({"schema": -1}, "nothing reads schema -1"),
    ({"schema": "0"}, "schema is '0'"),
    ({"schema": 99}, "newer jaxrobust"),
    ({"about": 3}, None),
    ({"threat": 3}, "expected a name"),
    ({"threat": ""}, "expected a name"),
  ],
)
def test_wrong_records_are_refused(change, reason):
  text = json.dumps({**RECORD, **change})
  if reason is None:
    from_text(text)
  else:
    with pytest.raises(CorruptFileError, match=reason):
      from_text(text)


def as_schema_1(result, **cell):
  """The document of a result as it was before configurations said their threat."""
  document = json.loads(to_text(result))
  document["config"].pop("threat", None)
  return {**document, "schema": 1, "cell": {**document["cell"], **cell}}


@pytest.mark.parametrize(
  ("attack", "condition", "threat"),
  [
    ("linf-pgd-20", "clean", {"name": "linf"}),
    ("linf-pgd-20", "fog-3-t32", {"name": "linf"}),
    ("l2-bim-20,step_size=0.15-minimum-budget,targeted", "clean", {"name": "l2"}),
    ("transfer:src:l2-pgd-20", "clean", {"name": "l2"}),
    ("transfer:linf-net:v2:l1-apgd-ce-100", "clean", {"name": "l1"}),
    ("none", "clean", None),
    ("linf-fgsm", "sequence-tilt-t32", None),
    ("lpa", "clean", None),
    ("unforeseen-mean", "ood-t-mean", None),
  ],
)
def test_files_of_schema_1_get_the_threat_at_the_head_of_their_id(result, attack, condition, threat):
  old = as_schema_1(result, attack=attack, condition=condition)
  new = from_text(json.dumps(old))
  assert new.schema == SCHEMA == 2 and new.config == {**old["config"], "threat": threat}
  assert {name: array.tobytes() for name, array in new.examples.items()} == {
    name: array.tobytes() for name, array in result.examples.items()
  }
  assert to_text(from_text(to_text(new))) == to_text(new)


def test_all_schemas_are_read_side_by_side(tmp_path, result):
  config = {**result.config, "threat": {"name": "stadv", "unit": "pixels"}}
  texts = [
    json.dumps({**RECORD, "attack": "l2-pgd", "eps": "1", "robust_accuracy": 0.5}),
    json.dumps(as_schema_1(result)),
    to_text(dataclasses.replace(result, config=config)),
  ]
  assert [json.loads(text)["schema"] for text in texts] == [0, 1, 2]
  for at, text in enumerate(texts):
    (tmp_path / f"{at}.n1.seed0.json").write_text(text)
  found = list(load_results(tmp_path))
  assert [threat_name(each.config, each.cell.attack) for each in found] == ["l2", "linf", "stadv"]
  assert {each.schema for each in found} == {2}
  assert migrate_folder(tmp_path) == 2 and [to_text(each) for each in load_results(tmp_path)] == list(
    map(to_text, found)
  )


def test_a_record_may_name_its_threat():
  attacked = {**RECORD, "attack": "lpa", "eps": "0.5", "robust_accuracy": 0.1, "threat": "lpips-alexnet"}
  assert from_text(json.dumps(attacked)).config["threat"] == {"name": "lpips-alexnet"}


@pytest.mark.parametrize("damage", [{"cell": None}, {"cell": []}, {"config": None}, {"config": 3}, {"cell": {}}])
def test_damaged_files_of_schema_1_are_refused_as_ever(result, damage):
  with pytest.raises(CorruptFileError, match=r"is not an object|entries missing"):
    from_text(json.dumps({**as_schema_1(result), **damage}))
  for name in damage:
    with pytest.raises(CorruptFileError, match="entries missing"):
      from_text(json.dumps({key: value for key, value in as_schema_1(result).items() if key != name}))


def test_steps_follow_one_another(monkeypatch):
  monkeypatch.setitem(MIGRATIONS, SCHEMA, lambda document: {**document, "schema": SCHEMA + 1, "new": True})
  document = migrate(RECORD, SCHEMA + 1)
  assert document["schema"] == SCHEMA + 1 and document["new"] and document["cell"]["model"] == "net"


def test_a_next_schema_is_one_function(monkeypatch, tmp_path, result):
  """Does what a later version would do: rename an entry of the summary."""
  path = tmp_path / "a.n5.seed0.json"
  path.write_text(to_text(result))

  def rename(document):
    summary = {"stood" if name == "robust" else name: value for name, value in document["summary"].items()}
    return {**document, "schema": SCHEMA + 1, "summary": summary}

  monkeypatch.setitem(MIGRATIONS, SCHEMA, rename)
  monkeypatch.setattr(cell_module, "SCHEMA", SCHEMA + 1)
  assert load_result(path).summary == {"stood": 3, "n": 5}


def test_reading_changes_no_file_and_migrating_does(tmp_path, result):
  (tmp_path / "old.n10000.seed0.json").write_text(json.dumps(RECORD))
  (tmp_path / "bad.n1.seed0.json").write_text("{")
  (tmp_path / "new.n5.seed0.json").write_text(to_text(result))
  before = {path: path.read_bytes() for path in tmp_path.iterdir()}
  assert len(list(load_results(tmp_path, lambda _: None))) == 2
  assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
  assert migrate_folder(tmp_path) == 1 and migrate_folder(tmp_path) == 0
  assert json.loads((tmp_path / "old.n10000.seed0.json").read_text())["schema"] == SCHEMA
  assert (tmp_path / "bad.n1.seed0.json").read_text() == "{"
