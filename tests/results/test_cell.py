"""Cells have unambiguous names and paths; results have one canonical text."""

import dataclasses
import json

import numpy as np
import pytest

from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.results.cell import Cell, Result, from_text, safe_name, to_text
from jaxrobust.results.plain import differences

pytestmark = pytest.mark.smoke

CELL = Cell(model="cnn", data="digits32", attack="linf-pgd-20", eps="8/255", n=1000)


def test_id_and_path():
  assert CELL.id == "linf-pgd-20@8/255"
  assert CELL.path("r").as_posix() == "r/cnn/digits32/clean/linf-pgd-20@8_255.n1000.seed0.json"
  clean = Cell(model="cnn", data="digits32", n=10, seed=3)
  assert clean.id == "none"
  assert clean.path("r").name == "none.n10.seed3.json"
  assert str(CELL) == "cnn digits32 clean linf-pgd-20@8/255 n=1000 seed=0"


def test_different_cells_have_different_paths():
  names = ["a", "a/b", "a_b", "a%2Fb", "a b", "..", ".", "%2E", "a@1", "é", "x" * 100, "x" * 101, "x" * 102]
  names += ["a.n5.seed0", "npz:/tmp/a.npz", "npz:tmp/a.npz", "\udc80", "a\nb"]
  cells = [dataclasses.replace(CELL, attack=name, eps=eps) for name in names for eps in (None, "1", "1/255")]
  cells += [dataclasses.replace(CELL, model=name, data=other) for name in names for other in names]
  paths = {cell.path("r") for cell in cells}
  assert len(paths) == len(cells)
  for path in paths:
    assert len(path.parts) == 5 and not {"..", "."} & set(path.parts)
    assert all(len(part) < 200 and part.isascii() for part in path.parts)
  assert safe_name("resnet20-v1.5_x+") == "resnet20-v1.5_x+"


@pytest.mark.parametrize(
  ("change", "reason"),
  [
    ({"model": ""}, "model must be a name"),
    ({"attack": None}, "attack must be a name"),
    ({"n": 0}, "n must be an integer of at least 1"),
    ({"n": 2.0}, "n must be an integer"),
    ({"seed": -1}, "seed must be an integer of at least 0"),
    ({"seed": True}, "seed must be an integer"),
    ({"eps": "8_255"}, "eps must be text"),
    ({"eps": 0.5}, "eps must be text"),
    ({"eps": "-1"}, "eps must be text"),
    ({"eps": "1" * 40}, "eps must be text"),
  ],
)
def test_bad_cells_are_refused(change, reason):
  with pytest.raises(InputError, match=reason):
    dataclasses.replace(CELL, **change)


def test_text_round_trip_is_byte_identical(result):
  text = to_text(result)
  back = from_text(text)
  assert to_text(back) == text and back.cell == result.cell
  for name, array in result.examples.items():
    np.testing.assert_array_equal(back.examples[name], array)
  reordered = dataclasses.replace(
    result,
    config=dict(reversed(result.config.items())),
    examples=dict(reversed(result.examples.items())),
  )
  assert to_text(reordered) == text


def test_numpy_scalars_and_tuples_become_plain(result):
  odd = dataclasses.replace(result, config={"a": np.float32(0.5), "b": (1, np.int64(2)), "c": np.bool_(True)})
  assert from_text(to_text(odd)).config == {"a": 0.5, "b": [1, 2], "c": True}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float32("-inf")])
def test_floats_that_are_not_finite(result, value):
  odd = dataclasses.replace(result, summary={"mean": value}, provenance={"x": [value]})
  text = to_text(odd)
  assert json.loads(text)["summary"] == {"mean": None}
  assert "NaN" not in text and "Infinity" not in text
  with pytest.raises(InputError, match=r"config\.attack\.alpha is .*only finite numbers"):
    to_text(dataclasses.replace(result, config={"attack": {"alpha": value}}))


@pytest.mark.parametrize("value", [np.zeros(2), object(), {1: 2}, {"a"}, b"x"])
def test_values_that_are_not_json_are_refused(result, value):
  with pytest.raises(InputError, match=r"config\.x .*can be stored"):
    to_text(dataclasses.replace(result, config={"x": value}))


def test_lengths_are_checked(result):
  with pytest.raises(InputError, match=r"'robust' have the shape \(4,\); expected \(5,\)"):
    dataclasses.replace(result, examples={"robust": np.zeros(4, bool)})
  with pytest.raises(InputError, match="larger than its cell"):
    dataclasses.replace(result, examples={"index": np.arange(6, dtype=np.int32)})


def edit(result: Result, **changes) -> str:
  return json.dumps({**json.loads(to_text(result)), **changes})


def test_wrong_documents_are_refused(result):
  cell = json.loads(to_text(result))["cell"]
  cases = [
    ("[]", "no JSON object"),
    ("{}", "schema is None"),
    ("", "truncated or not JSON"),
    ("\xff", "truncated or not JSON"),
    (b"\xff\xfe\x00", "truncated or not JSON"),
    ("[" * 200_000, "truncated or not JSON"),
    (edit(result, schema=3), "made by a newer jaxrobust .schema 3; this one reads up to 2"),
    (edit(result, schema=True), "schema is True"),
    (edit(result, extra=1), "unknown: extra"),
    (edit(result, config=[]), "config is not an object"),
    (edit(result, summary=None), "summary is not an object"),
    (edit(result, findings={}), "findings is not a list"),
    (edit(result, findings=[1]), "findings is not a list"),
    (edit(result, cell={}), "cell has entries missing"),
    (edit(result, cell={**cell, "n": "5"}), "n must be an integer"),
    (edit(result, cell={**cell, "n": 6}), "expected \\(6,\\)"),
    (edit(result, examples={"robust": 3}), "packed array"),
    (edit(result, summary={"x": float("nan")}), "NaN is not JSON"),
  ]
  for text, reason in cases:
    with pytest.raises(CorruptFileError, match=reason):
      from_text(text)


def test_differences_tell_true_from_one_and_lists_apart():
  assert not list(differences({"a": 2, "b": [1]}, {"a": 2.0, "b": [1]}))
  found = differences({"a": True, "b": [1, {"c": 2}]}, {"a": 1, "b": [1, {"c": 3}]})
  assert [d.key for d in found] == ["a", "b.1.c"]
  assert [d.key for d in differences({"a": [1]}, {"a": [1, 2]})] == ["a"]
  assert [d.key for d in differences({"a.b": 1}, {"a": {"b": 1}})] == ["a", "a.b"]
