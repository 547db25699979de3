"""Readers of ImageNet and its variants, on miniatures of the official layouts."""

import json
import tarfile

import numpy as np
import pytest
from PIL import Image

from jaxrobust.core.errors import InputError
from jaxrobust.data import load_data
from jaxrobust.data.cifar import NAMES
from jaxrobust.data.imagenet import class_index, wnids
from jaxrobust.data.judging import Judging
from tests.data.miniatures import RNG, A, B, all_of, picture


def test_wordnet_ids():
  assert wnids() == tuple(sorted(wnids())) and len(set(wnids())) == 1000
  # Well-known classes: tench, tabby, toilet tissue.
  assert (class_index(A), class_index(B), class_index("n15075141")) == (0, 281, 999)
  with pytest.raises(InputError, match="no class of ILSVRC"):
    class_index("n00000000")


@pytest.mark.parametrize("name", ["imagenet-a", "imagenet-r", "imagenet-o", "imagenet-sketch", "stylized-imagenet"])
def test_folders_by_wordnet_id(root, name):
  picture(root / name / B / "x.jpg")
  picture(root / name / A / "y.JPEG")
  source = load_data(name)
  images, labels = all_of(source)
  assert labels.tolist() == [0, 281] and source.num_classes == 1000 and images.shape == (2, 224, 224, 3)
  some = name in ("imagenet-a", "imagenet-r", "imagenet-o")
  assert source.judging == Judging(((0,), (281,)) if some else None, outliers=name == "imagenet-o")
  if some:
    whole = load_data(f"{name}:1000")
    assert whole.judging.choices is None and whole.name == f"{name}:1000"
    assert whole.fingerprint() != source.fingerprint()
    with pytest.raises(InputError, match=":1000 among all"):
      load_data(f"{name}:200")


def test_the_training_part_of_imagenet(root):
  picture(root / "imagenet" / "train" / B / "x.JPEG")
  source = load_data("imagenet-train")
  images, labels = all_of(source)
  assert labels.tolist() == [281] and images.shape == (1, 224, 224, 3) and source.num_classes == 1000


def test_imagenet_v2_counts_its_folders_as_numbers(root):
  for number in ("0", "1", "10", "999"):
    picture(root / "imagenetv2-matched-frequency-format-val" / number / "a.jpeg")
  assert load_data("imagenet-v2").labels.tolist() == [0, 1, 10, 999]


def test_imagenet_v_by_object_names(root):
  picture(root / "ImageNet-V" / "hotdog" / "1.png")
  assert load_data("imagenet-v").labels.tolist() == [class_index("n07697537")]
  assert load_data("imagenet-v").judging.choices == ((class_index("n07697537"),),)


def test_the_inliers_of_imagenet_o_are_validation_images_of_its_classes(root):
  for wnid, number in ((A, 1), (A, 2), (B, 3), ("n01443537", 4)):
    picture(root / "imagenet" / "val" / wnid / f"ILSVRC2012_val_0000000{number}.JPEG")
  with pytest.raises(InputError, match="whose folders say which classes"):
    load_data("imagenet-o-inliers")
  picture(root / "imagenet-o" / A / "x.jpg")
  picture(root / "imagenet-o" / B / "y.jpg")
  source = load_data("imagenet-o-inliers")
  assert source.labels.tolist() == [0, 0, 281] and source.judging.choices == ((0,), (281,))


@pytest.mark.parametrize("n", [1, 3, 7, 10, 20, 33, 80])
def test_any_number_of_files_has_every_class_alike(root, n):
  """A miniature that is stored class by class, as CINIC-10 and ImageNet are."""
  if not (root / "cinic10").exists():
    for name in NAMES:
      for number in range(8):
        picture(root / "cinic10" / "test" / name / f"n0{number}.png", (32, 32))
  source = load_data("cinic10")
  part = source.subset(n)
  counts = np.bincount(part.labels, minlength=10)
  assert counts.sum() == n and counts.max() - counts.min() <= 1
  np.testing.assert_array_equal(load_data(f"cinic10@{n}").take(np.arange(n))[1], part.labels)
  assert part.files == source.subset(80).files[:n], "a larger subset goes on where a smaller one ends"
  assert part.files == source.subset(70 if n <= 70 else 80).subset(n).files


def test_subsets_of_sets_made_from_one_another_pair_up(root):
  for wnid, number in ((A, 1), (A, 2), (A, 3), (B, 4), (B, 5), (B, 6)):
    picture(root / "imagenet" / "val" / wnid / f"ILSVRC2012_val_0000000{number}.JPEG")
    picture(root / "imagenet-c" / "fog" / "3" / wnid / f"ILSVRC2012_val_0000000{number}.JPEG", (224, 224))
  assert load_data("imagenet").subset(4).files == load_data("imagenet-c:fog-3").subset(4).files


def test_published_lists_of_files_come_first(root):
  for number in range(6):
    picture(root / "imagenet-a" / (A, B)[number % 2] / f"0.0{number} some name.jpg")
  (root / "image_ids").mkdir()
  (root / "image_ids" / "imagenet-a_image_ids.txt").write_text(f"{B}/0.03 some name.jpg\n{A}/0.04 some name.jpg\n")
  source = load_data("imagenet-a")
  assert source.subset(2).files == [f"{B}/0.03 some name.jpg", f"{A}/0.04 some name.jpg"]
  assert sorted(source.subset(6).files) == sorted(source.files)


def test_validation_folder_tar_and_real_labels(root):
  folder = root / "imagenet"
  one = picture(folder / "val" / A / "ILSVRC2012_val_00000001.JPEG")
  two = picture(folder / "val" / B / "ILSVRC2012_val_00000002.JPEG", color=(0, 200, 0))
  source = load_data("imagenet")
  assert source.labels.tolist() == [0, 281]
  (folder / "real.json").write_text(json.dumps([[], [5, 281]]))
  real = load_data("imagenet-real")
  assert real.labels.tolist() == [5] and real.judging.accepted == [(5, 281)] and real.files == source.files[1:]
  with tarfile.open(folder / "ILSVRC2012_img_val.tar", "w") as archive:
    archive.add(two, "ILSVRC2012_val_00000002.JPEG")
    archive.add(one, "ILSVRC2012_val_00000001.JPEG")
  with pytest.raises(InputError, match="has no labels"):
    load_data("imagenet")
  (folder / "imagenet_2012_validation_synset_labels.txt").write_text(f"{A}\n{B}\n")
  packed = load_data("imagenet")
  np.testing.assert_array_equal(all_of(packed)[0], all_of(source)[0])
  assert packed.labels.tolist() == [0, 281]


def test_corrupted_files_are_never_resampled(root):
  path = root / "imagenet-c" / "fog" / "3" / A / "x.JPEG"
  picture(path, (224, 224))
  noise = RNG.randint(0, 256, (224, 224, 3)).astype(np.uint8)
  Image.fromarray(noise).save(path, "JPEG", quality=85)
  images, _ = all_of(load_data("imagenet-c:fog-3"))
  np.testing.assert_allclose(images[0] * 255, np.asarray(Image.open(path)), atol=1e-4)


def test_objectnet_loses_its_border_and_maps_to_imagenet(root):
  folder = root / "objectnet-1.0"
  image = Image.new("RGB", (304, 264), (255, 0, 0))
  image.paste((0, 0, 255), (2, 2, 302, 262))
  for name in ("alarm_clock", "air_freshener"):
    (folder / "images" / name).mkdir(parents=True)
    image.save(folder / "images" / name / "a.png")
  maps = folder / "mappings"
  maps.mkdir()
  labels = {"alarm_clock": "Alarm clock", "air_freshener": "Air freshener"}
  (maps / "folder_to_objectnet_label.json").write_text(json.dumps(labels))
  (maps / "objectnet_to_imagenet_1k.json").write_text(json.dumps({"Alarm clock": "analog clock; digital clock"}))
  (maps / "imagenet_to_label_2012_v2").write_text("tench\nanalog clock\ndigital clock\n")
  (maps / "pytorch_to_imagenet_2012_id.json").write_text(json.dumps({"0": 0, "409": 1, "530": 2}))
  source = load_data("objectnet")
  assert source.labels.tolist() == [409] and source.judging.choices == ((409, 530),)
  assert all_of(source)[0][..., 0].max() == 0, "no red is left"
