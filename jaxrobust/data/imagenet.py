"""ImageNet and the sets made for its classes, read from their official layouts; classes by WordNet id.

The index of a class is its place among the sorted ids of the 1,000 classes of ILSVRC 2012. Sets that hold some of the
classes (-A, -R, -O, ObjectNet, -V) keep these indices, and are judged among these classes as their papers do; under the
name `…:1000` among all 1,000, as OODRobustBench does.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import re
from pathlib import Path

import numpy as np

from jaxrobust.core.condition import parse_corruption
from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.core.pictures import open_picture
from jaxrobust.core.reading import read_json, read_text, reading
from jaxrobust.data.encoded import EncodedSource
from jaxrobust.data.judging import Judging, own_classes
from jaxrobust.data.preprocessing import USUAL
from jaxrobust.data.stores import FolderStore, Store, TarStore

# The variant of a set of some classes that is judged among all of them.
ALL = "1000"
WNIDS_FILE = Path(__file__).with_name("imagenet_wnids.txt")


@functools.cache
def wnids() -> tuple[str, ...]:
  """Returns the WordNet ids of the 1,000 classes, in the order of their indices.

  >>> wnids()[0], wnids()[999], len(wnids())
  ('n01440764', 'n15075141', 1000)
  """
  return tuple(WNIDS_FILE.read_text().split())


@functools.cache
def _index() -> dict[str, int]:
  return {wnid: i for i, wnid in enumerate(wnids())}


def class_index(wnid: str) -> int:
  """Returns the class of a WordNet id.

  >>> class_index("n01443537")
  1
  """
  if wnid not in _index():
    raise InputError(f"{wnid!r} is no class of ILSVRC 2012; folders must be WordNet ids such as n01440764")
  return _index()[wnid]


def by_wnid(folder: Path, name: str, preprocessing: str = USUAL) -> EncodedSource:
  """Reads `folder/n01440764/….JPEG`: val folders, -Sketch, -C, Stylized."""
  store = FolderStore(folder)
  files = [file for file in store.names if "/" in file]
  return _source(name, store, files, [class_index(file.split("/")[0]) for file in files], preprocessing)


def some_classes(folder: Path, name: str, variant: str = "", outliers: bool = False) -> EncodedSource:
  """Loads folders of some of the classes (-A, -R, -O), judged among those; `variant` "1000" for all."""
  return _judged(by_wnid(folder, name), variant, outliers)


def _judged(source: EncodedSource, variant: str, outliers: bool = False) -> EncodedSource:
  """Returns a source of some classes, judged among these or among all."""
  if variant not in ("", ALL):
    name = source.name
    raise InputError(f"{name} is judged among its own classes, or as {name}:{ALL} among all, not as {variant!r}")
  if variant == ALL:
    return dataclasses.replace(source, name=f"{source.name}:{ALL}", judging=Judging(outliers=outliers))
  return dataclasses.replace(source, judging=Judging(own_classes(source.labels), outliers=outliers))


def inliers(folder: Path, variant: str = "") -> EncodedSource:
  """Loads the validation images of the classes that ImageNet-O files its outliers under: what they are told apart from.

  ImageNet-O's paper (arXiv:1907.07174) and RobustART's code (`imagenet_val_for_imagenet_o_ood`) take these 10,000, not
  all of the validation set, and confidences over the 200 classes. The folder of ImageNet-O says which they are.
  """
  source = validation(folder, "imagenet-o-inliers")
  outliers = folder.parent / "imagenet-o"
  if not outliers.is_dir():
    raise InputError(f"there is no folder {outliers}, whose folders say which classes the inliers have")
  classes = [class_index(path.name) for path in outliers.iterdir() if path.is_dir()]
  return _judged(source.select(np.flatnonzero(np.isin(source.labels, classes))), variant)


def validation(folder: Path, name: str = "imagenet", preprocessing: str = USUAL) -> EncodedSource:
  """Loads the validation set: folders by WordNet id, or the official tar beside a list of its 50,000 WordNet ids."""
  tar = folder / "ILSVRC2012_img_val.tar"
  if not tar.exists():
    return by_wnid(folder / "val" if (folder / "val").is_dir() else folder, name, preprocessing)
  listing = folder / "imagenet_2012_validation_synset_labels.txt"
  if not listing.exists():
    raise InputError(f"{tar} has no labels: put {listing.name} (one WordNet id per image) beside it")
  ids = read_text(listing).split()
  store = TarStore(tar)
  if len(ids) != len(store.names):
    raise CorruptFileError(f"{tar} holds {len(store.names)} images but {listing.name} {len(ids)} labels")
  return _source(name, store, store.names, [class_index(wnid) for wnid in ids], preprocessing)


def training(folder: Path, name: str = "imagenet-train", preprocessing: str = USUAL) -> EncodedSource:
  """Loads the training set: `train/n01440764/….JPEG`. Random crops come from the whole picture (`crops`)."""
  return by_wnid(folder / "train", name, preprocessing)


def real(folder: Path, preprocessing: str = USUAL) -> EncodedSource:
  """Loads ImageNet-ReaL (arXiv:2006.07159): validation images with all their right classes, but those with none."""
  path = folder / "real.json"
  if not path.exists():
    raise InputError(f"there is no {path}; get real.json from github.com/google-research/reassessed-imagenet")
  entries = read_json(path)
  with reading(f"{path}: not a list of lists of classes"):
    sets = [tuple(int(label) for label in entry) for entry in entries]
  source = validation(folder, "imagenet-real", preprocessing)
  # real.json is in the order of the files' numbers.
  number = np.array([int(re.findall(r"(\d+)\.", file)[-1]) - 1 for file in source.files])
  if len(number) and number.max() >= len(sets):
    raise CorruptFileError(f"{path} has {len(sets)} entries, fewer than the images' numbers")
  kept = np.array([i for i, n in enumerate(number) if sets[n]], int)
  chosen = [sets[number[i]] for i in kept]
  return EncodedSource(
    "imagenet-real",
    source.store,
    [source.files[i] for i in kept],
    np.array([labels[0] for labels in chosen]),
    1000,
    preprocessing,
    Judging(accepted=chosen),
  )


def v2(folder: Path, preprocessing: str = USUAL) -> EncodedSource:
  """Loads ImageNet-V2: folders are class indices, which sort as text (0, 1, 10, 100, …) but count as numbers."""
  store = FolderStore(folder)
  files = [file for file in store.names if "/" in file]
  bad = [file for file in files if not file.split("/")[0].isdigit() or int(file.split("/")[0]) > 999]
  if bad:
    raise InputError(f"{folder} has folders that are no class numbers: {bad[0].split('/')[0]}")
  return _source("imagenet-v2", store, files, [int(file.split("/")[0]) for file in files], preprocessing)


def corrupted(folder: Path, variant: str) -> EncodedSource:
  """Returns the official ImageNet-C files, `folder/fog/3/n01440764/….JPEG`; 224x224 already, and never resampled."""
  corruption, severity = split_variant("imagenet-c", variant)
  return by_wnid(folder / corruption / str(severity), f"imagenet-c:{variant}", "crop224")


def objectnet(folder: Path, variant: str = "") -> EncodedSource:
  """Loads ObjectNet's images of the 113 objects it shares with ImageNet, without their red border of 2 pixels.

  The class map is that of its own download (`mappings/`). Some objects stand for several ImageNet classes, each of
  which is right; a classifier chooses among the objects. `variant` "1000" has the objects of one class alone, judged
  among all 1,000 classes: OODRobustBench's 104 (arXiv:2310.12793, appendix B.1).
  """
  labels = _mapping(folder / "mappings" / "folder_to_objectnet_label.json")
  classes = _objectnet_classes(folder / "mappings")
  if variant == ALL:
    classes = {label: choice for label, choice in classes.items() if len(choice) == 1}
  store = _Borderless(folder / "images")
  object_of = lambda file: str(labels.get(file.split("/")[0]))
  chosen = [(file, classes[object_of(file)]) for file in store.names if object_of(file) in classes]
  files, first = [file for file, _ in chosen], [choice[0] for _, choice in chosen]
  source = _judged(_source("objectnet", store, files, first, USUAL), variant)
  if variant == ALL:
    return source
  return dataclasses.replace(source, judging=Judging(tuple(sorted({choice for _, choice in chosen}))))


def viewpoints(folder: Path, variant: str = "") -> EncodedSource:
  """Loads ImageNet-V (arXiv:2210.03895): folders are objects, some numbered; `imagenet_v_classes.txt` maps them."""
  names = dict(line.split()[::-1] for line in WNIDS_FILE.with_name("imagenet_v_classes.txt").read_text().splitlines())
  store = FolderStore(folder)
  files = [file for file in store.names if "/" in file]
  labels = []
  for file in files:
    name = file.split("/")[0]
    if name not in names:
      raise InputError(f"{folder} has a folder {name!r} that is no class of ImageNet-V")
    labels.append(class_index(names[name]))
  return _judged(_source("imagenet-v", store, files, labels, USUAL), variant)


def split_variant(name: str, variant: str) -> tuple[str, int]:
  """Returns the corruption and severity of a variant such as `fog-3`.

  >>> split_variant("imagenet-c", "gaussian_noise-5")
  ('gaussian_noise', 5)
  """
  found = parse_corruption(variant)
  if found is None or found[1] > 5 or variant != f"{found[0]}-{found[1]}":
    raise InputError(f"{name} needs a corruption and a severity, such as {name}:fog-3")
  return found


class _Borderless(FolderStore):
  """Cuts the border off ObjectNet's pictures; encodes them anew without loss."""

  def read(self, name: str) -> bytes:
    picture, out = open_picture(super().read(name)), io.BytesIO()
    width, height = picture.size
    with reading(f"{name} has no border of 2 pixels"):
      picture.crop((2, 2, width - 2, height - 2)).save(out, "PNG", compress_level=0)
    return out.getvalue()


def _mapping(path: Path) -> dict:
  if not path.exists():
    raise InputError(f"there is no {path}; it is part of ObjectNet's download")
  return read_json(path)


def _objectnet_classes(mappings: Path) -> dict[str, tuple[int, ...]]:
  """Maps ObjectNet's label to ImageNet classes: names, between semicolons, that are lines of its list of labels."""
  lines = read_text(mappings / "imagenet_to_label_2012_v2").splitlines()
  line_of = {int(index): int(line) for index, line in _mapping(mappings / "pytorch_to_imagenet_2012_id.json").items()}
  # Lines are counted from 0 or from 1, as the smallest number tells.
  first = min(line_of.values())
  index_of = {lines[line - first].strip(): index for index, line in line_of.items()}
  names = _mapping(mappings / "objectnet_to_imagenet_1k.json")
  return {label: tuple(index_of[name.strip()] for name in text.split(";")) for label, text in names.items()}


def _source(name: str, store: Store, files: list[str], labels: list[int], preprocessing: str) -> EncodedSource:
  return EncodedSource(name, store, files, np.array(labels, np.int32), 1000, preprocessing)
