"""Readers, on miniatures of the official layouts."""

import gzip
import hashlib
import io
import pickle
import struct
import tracemalloc

import numpy as np
import pytest
from PIL import Image

from jaxrobust.cli.main import main
from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.data import DATASETS, load_data
from jaxrobust.data.catalogue import CATALOGUE
from jaxrobust.data.encoded import EncodedSource
from jaxrobust.data.preprocessing import make_preprocessing
from jaxrobust.data.tfds import TfdsSource
from tests.data.miniatures import RNG, A, B, all_of, picture


def test_every_row_is_complete():
  for name, entry in CATALOGUE.items():
    assert entry.folder and entry.get and entry.license and entry.source, name
    make_preprocessing(entry.preprocessing)
  assert len(DATASETS) >= 25


def test_missing_sets_say_where_to_get_them(root, monkeypatch):
  with pytest.raises(InputError, match=r"get imagenet-a from https://github.com/hendrycks.*unpack imagenet-a.tar"):
    load_data("imagenet-a")
  monkeypatch.delenv("JAXROBUST_DATASETS")
  with pytest.raises(InputError, match="imagenet-a is not embedded: set JAXROBUST_DATASETS"):
    load_data("imagenet-a")


@pytest.mark.parametrize("classes", [10, 100])
@pytest.mark.parametrize("form", ["python", "binary", "npz"])
def test_cifar_in_all_forms(root, classes, form):
  rows, labels = RNG.randint(0, 256, (4, 3072)).astype(np.uint8), np.array([0, 3, 9, 1])
  folder = root / f"cifar{classes}"
  if form == "python":
    path = folder / ("cifar-10-batches-py/test_batch" if classes == 10 else "cifar-100-python/test")
    path.parent.mkdir(parents=True)
    key = b"labels" if classes == 10 else b"fine_labels"
    path.write_bytes(pickle.dumps({b"data": rows, key: labels.tolist()}, protocol=2))
  elif form == "binary":
    path = folder / ("cifar-10-batches-bin/test_batch.bin" if classes == 10 else "cifar-100-binary/test.bin")
    path.parent.mkdir(parents=True)
    head = [labels[:, None]] if classes == 10 else [labels[:, None] * 0, labels[:, None]]
    path.write_bytes(np.concatenate([*head, rows], 1).astype(np.uint8).tobytes())
  else:
    folder.mkdir()
    images = rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    np.savez(folder / "test.npz", images=images, labels=labels)
  source = load_data(f"cifar{classes}")
  images, found = all_of(source)
  np.testing.assert_array_equal(found, labels)
  np.testing.assert_allclose(images[1, 5, 7] * 255, rows[1].reshape(3, 32, 32)[:, 5, 7], atol=1e-4)
  assert source.num_classes == classes


def test_pickles_cannot_run_code(root):
  folder = root / "cifar10" / "cifar-10-batches-py"
  folder.mkdir(parents=True)

  class Evil:
    def __reduce__(self):
      return print, ("ran",)

  (folder / "test_batch").write_bytes(pickle.dumps({b"data": Evil()}))
  with pytest.raises(CorruptFileError, match="print is not an array"):
    load_data("cifar10")


@pytest.mark.parametrize(
  ("folder", "content", "kind", "reason"),
  [
    ("cifar-10-batches-py", None, InputError, "there is no file .*/test_batch"),
    ("cifar-10-batches-bin", None, InputError, "there is no file .*/test_batch.bin"),
    ("cifar-10-batches-py", pickle.dumps({b"labels": [1]}), CorruptFileError, "it has no 'data'"),
    ("cifar-10-batches-py", pickle.dumps({b"data": [[0] * 3072]}), CorruptFileError, "it has no 'labels'"),
    ("cifar-10-batches-py", pickle.dumps({b"data": [[0] * 5], b"labels": [1]}), CorruptFileError, "cannot reshape"),
    ("cifar-10-batches-py", pickle.dumps({b"data": b"x", b"labels": [1]}), CorruptFileError, "invalid literal"),
    ("cifar-10-batches-py", pickle.dumps([1, 2]), CorruptFileError, "it holds list, not a dictionary"),
    ("cifar-10-batches-py", b"", CorruptFileError, "not a CIFAR batch"),
    ("cifar-10-batches-bin", b"", InputError, "cifar10 has no images"),
  ],
)
def test_incomplete_and_damaged_cifar_is_said_in_one_line(root, capsys, folder, content, kind, reason):
  path = root / "cifar10" / folder / ("test_batch" if folder.endswith("py") else "test_batch.bin")
  path.parent.mkdir(parents=True)
  if content is not None:
    path.write_bytes(content)
  with pytest.raises(kind, match=reason):
    load_data("cifar10")
  assert main(["data", "check", "cifar10"]) == 3
  assert capsys.readouterr().out.endswith("1 problem\n") or content is not None


def test_an_empty_archive_is_refused_by_name(tmp_path):
  path = tmp_path / "empty.npz"
  np.savez(path, images=np.zeros((0, 8, 8, 3), np.uint8), labels=np.zeros(0, int))
  with pytest.raises(InputError, match=f"npz:{path} has no images"):
    load_data(f"npz:{path}")


def test_cifar_relatives(root):
  images, labels = RNG.randint(0, 256, (10, 32, 32, 3)).astype(np.uint8), np.arange(10)
  for folder in ("cifar10.1-v6", "cifar10.2", "cifar10-c", "ImageNet16"):
    (root / folder).mkdir()
  np.save(root / "cifar10.1-v6" / "cifar10.1_v6_data.npy", images)
  np.save(root / "cifar10.1-v6" / "cifar10.1_v6_labels.npy", labels)
  np.savez(root / "cifar10.2" / "cifar102_test.npz", images=images, labels=labels)
  np.save(root / "cifar10-c" / "fog.npy", images)
  np.save(root / "cifar10-c" / "labels.npy", labels)
  small = {"data": RNG.randint(0, 256, (3, 768)).astype(np.uint8), "labels": [1, 120, 121]}
  (root / "ImageNet16" / "val_data").write_bytes(pickle.dumps(small))
  for name in ("cifar10.1-v6", "cifar10.2"):
    np.testing.assert_allclose(all_of(load_data(name))[0] * 255, images, atol=1e-4)
  corrupted = load_data("cifar10-c:fog-3")
  np.testing.assert_allclose(all_of(corrupted)[0] * 255, images[4:6], atol=1e-4)
  assert corrupted.name == "cifar10-c:fog-3" and corrupted.labels.tolist() == [4, 5]
  assert load_data("imagenet16-120").labels.tolist() == [0, 119]
  for index in range(1, 11):
    (root / "ImageNet16" / f"train_data_batch_{index}").write_bytes(pickle.dumps({**small, "labels": [index, 121, 2]}))
  train = load_data("imagenet16-120-train")
  assert train.labels.tolist() == [label for index in range(10) for label in (index, 1)] and len(train) == 20
  np.testing.assert_allclose(train.take(np.arange(1))[0][0, 0, 0] * 255, small["data"][0][[0, 256, 512]], atol=1e-4)
  for name, reason in [("cifar10-c:fog-9", "such as cifar10-c:fog-3"), ("cifar10-c:snow-1", "no file .*snow.npy")]:
    with pytest.raises(InputError, match=reason):
      load_data(name)
  with pytest.raises(InputError, match="has no variants"):
    load_data("cifar10.2:fog-3")


def test_folders_of_class_names(root):
  for name in ("cifar10-test-1.png", "n02084071_1.png"):
    picture(root / "cinic10" / "test" / "dog" / name, (32, 32))
  source = load_data("cinic10")
  assert [f.split("/")[1] for f in source.files] == ["n02084071_1.png"] and source.labels.tolist() == [5]
  picture(root / "cifar-10-r" / "wolf" / "1.png", (32, 32))
  with pytest.raises(InputError, match="no class of CIFAR-10: wolf"):
    load_data("cifar10-r")


def test_fashion_mnist_and_tiny_imagenet(root):
  folder = root / "fashion-mnist"
  folder.mkdir()
  images = RNG.randint(0, 256, (3, 28, 28)).astype(np.uint8)
  raw = struct.pack(">HBBIII", 0, 8, 3, *images.shape) + images.tobytes()
  (folder / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(raw))
  (folder / "t10k-labels-idx1-ubyte").write_bytes(struct.pack(">HBBI", 0, 8, 1, 3) + bytes([7, 0, 9]))
  found, labels = all_of(load_data("fashion-mnist"))
  np.testing.assert_allclose(found[..., 0] * 255, images, atol=1e-4)
  assert labels.tolist() == [7, 0, 9]
  tiny = root / "tiny-imagenet-200"
  picture(tiny / "val" / "images" / "val_0.JPEG", (64, 64))
  (tiny / "val" / "val_annotations.txt").write_text(f"val_0.JPEG\t{B}\t0\t0\t1\t1\n")
  (tiny / "wnids.txt").write_text(f"{B}\n{A}\n")
  assert load_data("tiny-imagenet").labels.tolist() == [1]


def test_bad_pictures_are_named_and_left_out_on_request(root, capsys):
  picture(root / "imagenet-a" / A / "good.jpg")
  picture(root / "imagenet-a" / A / "print.jpg", mode="CMYK")
  (root / "imagenet-a" / B).mkdir()
  (root / "imagenet-a" / B / "broken.jpg").write_bytes(b"<html>")
  source = load_data("imagenet-a")
  reason = r"imagenet-a example 2 \(n02123045/broken.jpg\) cannot be decoded: not a picture of a known format$"
  with pytest.raises(CorruptFileError, match=reason):
    all_of(source)
  bad = dict(source.bad_images())
  assert list(bad) == [1, 2] and "CMYK" in bad[1]
  assert len(source.without([2])) == 2 and source.without([2]).fingerprint() != source.fingerprint()
  assert main(["data", "check", "imagenet-a", "--decode"]) == 3
  text = capsys.readouterr().out
  assert "a complete copy has 7500" in text and "example 2" in text and "3 problems" in text
  out = root / "a.npz"
  assert main(["data", "prepare", "--out", str(out), "imagenet-a", "--skip_bad"]) == 0
  assert len(load_data(f"npz:{out}")) == 1


def test_any_folder_and_pinned_subsets(root):
  for i in range(6):
    picture(root / "mine" / ("cat" if i % 2 else "ant") / f"{i}.png", (260, 300), color=(40 * i, 0, 0))
  source = load_data(f"folder:{root}/mine")
  assert source.num_classes == 2 and source.labels.tolist() == [0, 0, 0, 1, 1, 1]
  part = load_data("digits32@100")
  whole = load_data("digits32")
  images = part.take(np.array([7, 3]))[0]
  np.testing.assert_array_equal(images, whole.take(part.ids[[7, 3]])[0])
  assert part.name == "digits32@100" and len(set(part.ids.tolist())) == 100 and part.ids[:3].tolist() == PINNED
  assert part.fingerprint() != load_data("digits32@99").fingerprint() and len(part.subset(5)) == 5
  with pytest.raises(InputError, match="has 500 examples; cannot take 501"):
    load_data("digits32@501")


# Ids that must never change: results of subsets would stop being comparable.
PINNED = [70, 5, 276]


def test_preprocessing_by_hand():
  wide = Image.fromarray(RNG.randint(0, 256, (300, 500, 3)).astype(np.uint8))
  for name in ("resize256-crop224", "stretch224", "stretch256-crop224", "crop224"):
    assert make_preprocessing(name)(wide).shape == (224, 224, 3)
  resized = np.asarray(wide.resize((426, 256), Image.Resampling.BILINEAR))
  np.testing.assert_array_equal(make_preprocessing("resize256-crop224")(wide), resized[16:240, 101:325])


# What a classifier sees must not change unnoticed: a changed resize moves published accuracies.
PREPROCESSED = {
  "crop224": "4d39da0a183d",
  "none": "ec81f8ad755c",
  "resize256-crop224": "74a9a35362d1",
  "stretch224": "80223040a5aa",
  "stretch256-crop224": "f016bfa73950",
  "stretch32": "f8be0b332c46",
}


@pytest.mark.parametrize("name", sorted(PREPROCESSED))
def test_golden_hashes_of_preprocessed_images(name):
  y, x = np.mgrid[0:280, 0:420]
  levels = np.stack([x % 256, (x * y // 50) % 256, (3 * y) % 256], -1).astype(np.uint8)
  image = make_preprocessing(name)(Image.fromarray(levels))
  assert hashlib.sha256(np.ascontiguousarray(image).tobytes()).hexdigest()[:12] == PREPROCESSED[name]


def test_list(root, capsys):
  assert main(["data", "list"]) == 0
  assert "imagenet-sketch" in capsys.readouterr().out


class Drawn:
  """A store of pictures that are drawn when read."""

  def __init__(self, n):
    self.names = [str(i) for i in range(n)]

  def read(self, name):
    file = io.BytesIO()
    Image.new("RGB", (40, 40), (int(name) % 256, 0, 0)).save(file, "PNG")
    return file.getvalue()

  def hashes(self, names):
    return {name: name for name in names}


def test_memory_does_not_grow_with_the_number_of_images():
  peaks = []
  for n in (200, 2000):
    source = EncodedSource("drawn", Drawn(n), [str(i) for i in range(n)], np.zeros(n, int), 10, "stretch32")
    source.take(np.arange(50))
    tracemalloc.start()
    for start in range(0, n, 50):
      source.take(np.arange(start, start + 50))
    peaks.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
  assert peaks[1] < 1.2 * peaks[0], peaks


def test_prepared_tfds_sets():
  rows = [{"image": np.full((4, 4, 3), 51 * i, np.uint8), "label": i} for i in range(5)]
  source = TfdsSource("tfds:fake:test", rows, 5, len(rows))
  images, labels = source.take(np.array([4, 1]))
  assert images[:, 0, 0, 0].tolist() == [np.float32(0.8), np.float32(0.2)] and labels.tolist() == [4, 1]
  assert len(source.subset(2)) == 2 and source.fingerprint() != source.subset(2).fingerprint()
  with pytest.raises(InputError, match="tfds cannot read 'no_such_set'"):
    load_data("tfds:no_such_set")


def test_the_classes_of_a_folder_are_counted_by_number_by_list_or_by_name(root):
  for name in ("10", "2", "0"):
    picture(root / "numbers" / name / "1.png", (32, 32))
  for name in ("eel", "cat"):
    picture(root / "names" / name / "1.png", (32, 32))
  numbers, names = load_data(f"folder:{root}/numbers"), load_data(f"folder:{root}/names")
  assert sorted(numbers.labels.tolist()) == [0, 2, 10] and numbers.num_classes == 11
  assert names.labels.tolist() == [0, 1] and names.class_names == ("cat", "eel")
  (root / "names" / "classes.txt").write_text("ant\neel\ncat\n")
  listed = load_data(f"folder:{root}/names", preprocess="resize16-crop16")
  assert listed.labels.tolist() == [2, 1] and listed.class_names == ("ant", "eel", "cat")
  assert listed.take(np.arange(2))[0].shape == (2, 16, 16, 3)
  (root / "names" / "classes.txt").write_text("ant\nant\n")
  with pytest.raises(InputError, match="names a class twice"):
    load_data(f"folder:{root}/names")
