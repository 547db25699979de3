"""Earlier schemas are read as the present one, step by step, and rewritten only when asked."""

import json

import pytest

from jaxrobust.core.errors import CorruptFileError
from jaxrobust.results import cell as cell_module
from jaxrobust.results import load_result, load_results, to_text
from jaxrobust.results.cell import SCHEMA, from_text
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
    ({"n": 0}, "n must be a whole number"),
    ({"model": 3}, "model must be a name"),
    ({"acuracy": 1}, "no entry acuracy"),
    ({"eps": "<b>"}, "eps must be text"),
    ({"schema": -1}, "nothing reads schema -1"),
    ({"schema": "0"}, "schema is '0'"),
    ({"schema": 99}, "newer jaxrobust"),
    ({"about": 3}, None),
  ],
)
def test_wrong_records_are_refused(change, reason):
  text = json.dumps({**RECORD, **change})
  if reason is None:
    from_text(text)
  else:
    with pytest.raises(CorruptFileError, match=reason):
      from_text(text)


def test_steps_follow_one_another(monkeypatch):
  monkeypatch.setitem(MIGRATIONS, SCHEMA, lambda document: {**document, "schema": SCHEMA + 1, "new": True})
  document = migrate(RECORD, SCHEMA + 1)
  assert document["schema"] == SCHEMA + 1 and document["new"] and document["cell"]["model"] == "net"


def test_a_next_schema_is_one_function(monkeypatch, tmp_path, result):
  """What a later version would do: rename an entry of the summary."""
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
