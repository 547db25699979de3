"""ImageNet and its relatives in the catalogue of data sets: where they come from, and what a complete copy has."""

from __future__ import annotations

import functools

from jaxrobust.data import imagenet
from jaxrobust.data.preprocessing import USUAL
from jaxrobust.data.source import Dataset

_MIT, _RESEARCH = "MIT", "research only; see the source"
CORRUPTED = "https://github.com/hendrycks/robustness (Zenodo 2535967, 3555552, 2235448)"
_IMAGENET = "https://www.image-net.org"
_ADVERSARIAL = "https://github.com/hendrycks/natural-adv-examples"
_HUMAN = "adapted from ImageNet; research only"


def _by_wnid(name: str, text: str, size: int, source: str, license: str, get: str) -> Dataset:
  return Dataset(
    functools.partial(imagenet.by_wnid, name=name),
    text,
    size,
    1000,
    source,
    license,
    name,
    get,
    preprocessing=USUAL,
    class_map="folders are WordNet ids",
  )


def _some_classes(name: str, text: str, size: int, source: str, outliers: bool = False) -> Dataset:
  return Dataset(
    functools.partial(imagenet.some_classes, name=name, outliers=outliers),
    text,
    size,
    1000,
    source,
    _MIT,
    name,
    f"unpack {name}.tar",
    preprocessing=USUAL,
    class_map="folders are WordNet ids" + ("; labels are not the truth" if outliers else ""),
    variants=True,
    judged="by confidence among its own 200 classes" if outliers else "among its own 200 classes",
    id_list="" if outliers else name,
  )


IMAGENET_SETS: dict[str, Dataset] = {
  "imagenet": Dataset(
    imagenet.validation,
    "ImageNet (ILSVRC 2012), validation part",
    50_000,
    1000,
    _IMAGENET,
    _RESEARCH,
    "imagenet",
    "put val/n01440764/….JPEG there, or ILSVRC2012_img_val.tar with imagenet_2012_validation_synset_labels.txt",
    preprocessing=USUAL,
    class_map="sorted WordNet ids",
    id_list="imagenet_test",
  ),
  "imagenet-train": Dataset(
    imagenet.training,
    "ImageNet (ILSVRC 2012), training part",
    1_281_167,
    1000,
    _IMAGENET,
    _RESEARCH,
    "imagenet",
    "put train/n01440764/….JPEG there",
    preprocessing=USUAL,
    class_map="sorted WordNet ids",
  ),
  "imagenet-real": Dataset(
    imagenet.real,
    "ImageNet-ReaL: the validation part with reassessed labels",
    46_837,
    1000,
    "https://github.com/google-research/reassessed-imagenet",
    "Apache-2.0 (labels)",
    "imagenet",
    "put real.json beside the validation images",
    preprocessing=USUAL,
    class_map="sorted WordNet ids",
    judged="by any of the right classes of an image",
  ),
  "imagenet-v2": Dataset(
    imagenet.v2,
    "ImageNet-V2, matched frequency",
    10_000,
    1000,
    "https://github.com/modestyachts/ImageNetV2",
    _MIT,
    "imagenetv2-matched-frequency-format-val",
    "unpack imagenetv2-matched-frequency.tar.gz",
    preprocessing=USUAL,
    class_map="folders are class numbers",
    id_list="imagenet-v2",
  ),
  "imagenet-a": _some_classes(
    "imagenet-a", "ImageNet-A: natural adversarial examples of 200 classes", 7500, _ADVERSARIAL
  ),
  "imagenet-o": _some_classes(
    "imagenet-o",
    "ImageNet-O: images of no ImageNet class, filed under the 200 they resemble; for outlier detection",
    2000,
    _ADVERSARIAL,
    outliers=True,
  ),
  "imagenet-o-inliers": Dataset(
    imagenet.inliers,
    "ImageNet's validation images of ImageNet-O's 200 classes, which its outliers are told apart from",
    10_000,
    1000,
    _IMAGENET,
    _RESEARCH,
    "imagenet",
    "put the validation images there, and ImageNet-O beside the folder",
    preprocessing=USUAL,
    class_map="sorted WordNet ids; those of the folders of imagenet-o",
    variants=True,
    judged="among ImageNet-O's 200 classes",
  ),
  "imagenet-r": _some_classes(
    "imagenet-r", "ImageNet-R: renditions of 200 classes", 30_000, "https://github.com/hendrycks/imagenet-r"
  ),
  "imagenet-sketch": _by_wnid(
    "imagenet-sketch",
    "ImageNet-Sketch",
    50_889,
    "https://github.com/HaohanWang/ImageNet-Sketch",
    _MIT,
    "unpack ImageNet-Sketch.zip so that imagenet-sketch/n01440764 exists",
  ),
  "stylized-imagenet": _by_wnid(
    "stylized-imagenet",
    "Stylized-ImageNet, validation part",
    50_000,
    "https://github.com/rgeirhos/Stylized-ImageNet",
    _HUMAN,
    "generate it with the authors' code, so that stylized-imagenet/n01440764 exists",
  ),
  "imagenet-v": Dataset(
    imagenet.viewpoints,
    "ImageNet-V: 100 objects from adversarial viewpoints",
    10_093,
    1000,
    "https://github.com/Heathcliff-saku/ViewFool_",
    _RESEARCH,
    "ImageNet-V",
    "unpack it there",
    preprocessing=USUAL,
    class_map="imagenet_v_classes.txt, by WordNet id",
    variants=True,
    judged="among its own 100 classes",
    id_list="imagenet-v",
  ),
  "objectnet": Dataset(
    imagenet.objectnet,
    "ObjectNet: the objects that are ImageNet classes, borders removed",
    18_574,
    1000,
    "https://objectnet.dev",
    "own license: no training on it",
    "objectnet-1.0",
    "unpack objectnet-1.0.zip (images/ and mappings/)",
    preprocessing=USUAL,
    class_map="its own mappings",
    variants=True,
    judged="among its own 113 objects, each of one or more classes",
    id_list="objectnet",
    sizes={"1000": 17_261},
  ),
  "imagenet-c": Dataset(
    imagenet.corrupted,
    "ImageNet-C, the official files; imagenet-c:fog-3 is one corruption and severity",
    50_000,
    1000,
    CORRUPTED,
    "CC BY 4.0",
    "imagenet-c",
    "unpack blur.tar, digital.tar, extra.tar, noise.tar, weather.tar so that imagenet-c/fog/3/n01440764 exists",
    preprocessing="crop224",
    class_map="folders are WordNet ids",
    variants=True,
  ),
}
