"""Portable classifiers: the same network in two small files, and names for the ones that ship."""

import json

import jax
import numpy as np
import pytest

from jaxrobust.cli.main import main
from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.models import zoo
from jaxrobust.models.registry import make_model
from jaxrobust.models.weights import portable


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
  folder = tmp_path_factory.mktemp("portable") / "net"
  variables = make_model("cnn-tiny", 5).init(jax.random.key(0), np.zeros((1, 32, 32, 3), np.float32))
  return zoo.save_classifier(folder, "cnn-tiny", variables, num_classes=5, std=0.5, notes={"epochs": 3})


@pytest.fixture
def small(saved, tmp_path):
  return zoo.save_portable(saved, tmp_path / "small-net", {"description": "a small net"})


def test_the_same_network_in_two_files(saved, small):
  assert sorted(path.name for path in small.iterdir()) == ["classifier.json", "weights.npz"]
  assert zoo.fingerprint(zoo.load_classifier(small)) == zoo.fingerprint(zoo.load_classifier(saved))
  assert zoo.read_metadata(small)["notes"] == {"epochs": 3, "description": "a small net"}
  before = (small / "weights.npz").read_bytes()
  assert zoo.save_portable(small, small).joinpath("weights.npz").read_bytes() == before


def test_damage_is_named(small):
  path = small / "weights.npz"
  whole = path.read_bytes()
  for broken in (whole[: len(whole) // 2], b"", b"<html>"):
    path.write_bytes(broken)
    with pytest.raises(CorruptFileError, match=r"weights\.npz is not a file of weights"):
      zoo.load_classifier(small)
  np.savez(path, other=np.zeros(3))
  with pytest.raises(CorruptFileError, match=r"weights\.npz holds other weights than the network has"):
    zoo.load_classifier(small)
  np.savez(path, danger=np.array([print], dtype=object))
  with pytest.raises(CorruptFileError):
    zoo.load_classifier(small)


def test_shipped_ones_load_by_name_and_a_folder_of_that_name_comes_first(saved, small, monkeypatch, capsys):
  monkeypatch.setattr(portable, "SHIPPED", small.parent)
  monkeypatch.setattr(zoo, "SHIPPED", small.parent)
  assert portable.shipped() == ["small-net"]
  assert zoo.fingerprint(zoo.load_classifier("small-net")) == zoo.fingerprint(zoo.load_classifier(saved))
  assert main(["list", "zoo"]) == 0 and "small-net              a small net" in capsys.readouterr().out
  with pytest.raises(InputError, match="did you mean 'small-net'"):
    zoo.load_classifier("smal-net")
  monkeypatch.chdir(saved.parent.parent)
  (saved.parent.parent / "small-net").mkdir(exist_ok=True)
  with pytest.raises(InputError, match=r"classifier\.json is missing"):
    zoo.load_classifier("small-net")


def test_every_shipped_classifier_is_small_complete_and_loads():
  for name in portable.shipped():
    folder = portable.SHIPPED / name
    assert (folder / "weights.npz").stat().st_size <= 2 << 20
    assert json.loads((folder / "classifier.json").read_text())["notes"]["description"]
    assert zoo.load_classifier(name).num_classes == 10
