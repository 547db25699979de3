"""Data sets are found by name, archives by path, and mistakes get a hint."""

import io
import pickle

import numpy as np
import pytest

from jaxrobust.core.errors import CorruptFileError, InputError, UnknownNameError
from jaxrobust.data import DATASETS, list_datasets, load_data

IMAGES = np.full((4, 8, 8, 3), 100, np.uint8)
LABELS = np.array([0, 3, 1, 2])


def archive(path, **arrays):
  np.savez(path, **arrays)
  return f"npz:{path}"


def test_entries_tell_the_truth():
  assert list_datasets("digits32*") == [name for name, entry in DATASETS.items() if not entry.folder]
  assert "digits32-train" in list_datasets("*-train")
  for name in list_datasets("digits32*"):
    entry = DATASETS[name]
    source = load_data(name)
    assert (source.name, len(source), source.num_classes) == (name, entry.size, entry.classes)
    assert entry.description and entry.source and entry.license


def test_unknown_names_get_a_hint(tmp_path):
  with pytest.raises(UnknownNameError, match="unknown dataset 'digit32'; did you mean 'digits32'"):
    load_data("digit32")
  with pytest.raises(UnknownNameError, match=r"did you mean 'npz:a\.npz'"):
    load_data("a.npz")


@pytest.mark.parametrize("names", ["images labels", "x y", "x_test y_test", "data labels"])
def test_npz(tmp_path, names):
  images, labels = names.split()
  name = archive(tmp_path / "a.npz", **{images: IMAGES, labels: LABELS, "other": np.zeros(3)})
  source = load_data(name)
  assert (source.name, source.num_classes, len(source)) == (name, 4, 4)
  np.testing.assert_array_equal(source.take(np.arange(4))[1], LABELS)


def test_npz_float_column_labels_and_class_count(tmp_path):
  images = np.full((4, 8, 8, 3), 0.25, np.float32)
  column = LABELS[:, None].astype(np.uint8)
  source = load_data(archive(tmp_path / "a.npz", x=images, y=column, num_classes=10))
  assert source.num_classes == 10 and source.take(np.array([1]))[0].max() == np.float32(0.25)


@pytest.mark.parametrize(
  ("arrays", "reason"),
  [
    ({"labels": LABELS}, r"no images \(looked for images, x, x_test, data; found labels\)"),
    ({"images": IMAGES, "z": LABELS}, r"no labels \(looked for labels, y, y_test; found images, z\)"),
    ({"images": IMAGES, "labels": LABELS[:3]}, "4 images but 3 labels"),
    ({"images": IMAGES, "labels": LABELS * 0.5}, "labels are float64; expected integers"),
    ({"images": IMAGES, "labels": LABELS - 1}, "labels range from -1"),
    ({"images": IMAGES, "labels": LABELS, "num_classes": 3}, "labels range from 0 to 3; expected 0 to 2"),
    ({"images": IMAGES, "labels": LABELS, "num_classes": 0.5}, "num_classes must be one integer"),
    ({"images": IMAGES[0], "labels": LABELS}, r"expected \(N, H, W, C\)"),
    ({"images": IMAGES.astype(np.float32), "labels": LABELS}, "range from 100 to 100; .*divide by 255"),
    ({"images": IMAGES / 255, "labels": LABELS}, "are float64; expected uint8 or float32"),
    ({"images": IMAGES.astype(np.int64), "labels": LABELS}, "are int64; expected uint8 or float32"),
  ],
)
def test_bad_npz_content(tmp_path, arrays, reason):
  name = archive(tmp_path / "a.npz", **arrays)
  with pytest.raises(InputError, match=reason) as error:
    load_data(name)
  assert "a.npz" in str(error.value) and "\n" not in str(error.value)


def test_bad_npz_files(tmp_path):
  with pytest.raises(InputError, match=r"there is no file .*absent"):
    load_data(f"npz:{tmp_path}/absent.npz")
  with pytest.raises(InputError, match="there is no file"):
    load_data("npz:")
  path = tmp_path / "a.npz"
  name = archive(path, images=IMAGES, labels=LABELS)
  whole = path.read_bytes()
  for content in (b"", b"x", whole[: len(whole) // 2], whole[:-1], pickle.dumps({"a": 1})):
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"a\.npz: truncated or not an \.npz archive"):
      load_data(name)
  path.write_bytes(whole.replace(b"\x64" * 64, b"\x65" * 64, 1))
  with pytest.raises(CorruptFileError, match="truncated"):
    load_data(name)
  buffer = io.BytesIO()
  np.save(buffer, IMAGES)
  path.write_bytes(buffer.getvalue())
  with pytest.raises(InputError, match="single array"):
    load_data(name)


def test_pickles_are_never_loaded(tmp_path):
  name = archive(tmp_path / "a.npz", images=IMAGES, labels=np.array([{}] * 4, object))
  with pytest.raises(CorruptFileError, match="pickled objects, which are never loaded"):
    load_data(name)
