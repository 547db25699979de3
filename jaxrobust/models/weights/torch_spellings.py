"""The names that different ports of one architecture give its layers: each spelling turns a port's name into ours.

A spelling is a function (name in the checkpoint, all our names) -> our name.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from jaxrobust.models.weights.torchvision_spellings import (
  torchvision_convnext,
  torchvision_mobilenet_v3,
  torchvision_swin,
  torchvision_vit,
)

Spelling = Callable[[str, frozenset[str]], str]


def _same(name: str, names: frozenset[str]) -> str:
  del names
  return name


def _rules(*rules: tuple[str, str]) -> Spelling:
  """Returns a spelling that differs by regular expressions, applied in turn after the beginning or a dot."""
  patterns = [(re.compile(rf"(?:(?<=^)|(?<=\.)){pattern}"), text) for pattern, text in rules]

  def spell(name: str, names: frozenset[str]) -> str:
    del names
    for pattern, text in patterns:
      name = pattern.sub(text, name, count=1)
    return name

  return spell


def _blocks(names: frozenset[str]) -> list[str]:
  """Prefixes of our inverted residuals, in order."""
  found = (re.match(r"blocks\.(\d+)\.(\d+)\.", name) for name in names)
  return [
    "blocks.{}.{}.".format(*pair) for pair in sorted({(int(block[1]), int(block[2])) for block in found if block})
  ]


def _units(prefix: str, names: frozenset[str]) -> list[tuple[str, str]]:
  """Returns (convolution, batch norm) of a block in order; without expansion timm counts from the depthwise one."""
  if f"{prefix}conv_pwl.weight" in names:
    return [("conv_pw", "bn1"), ("conv_dw", "bn2"), ("conv_pwl", "bn3")]
  return [("conv_dw", "bn1"), ("conv_pw", "bn2")]


def _efficientnet_pytorch(name: str, names: frozenset[str]) -> str:
  """Reads lukemelas/EfficientNet-PyTorch and its Lite port: blocks numbered through, names with underscores."""
  match = re.match(r"(.*?)\b_blocks\.(\d+)\.(.*)$", name)
  if match is None:
    for theirs, ours in (("_conv_stem", "conv_stem"), ("_bn0", "bn1"), ("_conv_head", "conv_head"), ("_bn1", "bn2")):
      name = re.sub(rf"(^|\.){theirs}\.", rf"\g<1>{ours}.", name)
    return re.sub(r"(^|\.)_fc\.", r"\g<1>classifier.", name)
  blocks = _blocks(names)
  if int(match[2]) >= len(blocks):
    return name
  prefix = blocks[int(match[2])]
  pairs = [("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2")]
  units = _units(prefix, names)
  layers = {"_se_reduce": "se.conv_reduce", "_se_expand": "se.conv_expand"}
  for their_pair, our_pair in zip(pairs[-len(units) :], units, strict=True):
    layers |= dict(zip(their_pair, our_pair, strict=True))
  layer, _, leaf = match[3].partition(".")
  return f"{match[1]}{prefix}{layers.get(layer, layer)}.{leaf}"


def _torchvision_inverted(name: str, names: frozenset[str]) -> str:
  """Reads torchvision's MobileNets and EfficientNets: everything is a number in `features`."""
  match = re.match(r"(.*?)\bfeatures\.(\d+)\.(?:(\d+)\.)?(?:conv|block)\.([\d.]+|\d+\.fc[12])\.(\w+)$", name)
  if match is None:
    name = re.sub(r"\bfeatures\.0\.0\.", "conv_stem.", name)
    name = re.sub(r"\bfeatures\.0\.1\.", "bn1.", name)
    name = torchvision_mobilenet_v3(name, names)
    name = re.sub(r"\bfeatures\.\d+\.0\.", "conv_head.", name)
    return re.sub(r"\bfeatures\.\d+\.1\.", "bn2.", name).replace("classifier.1.", "classifier.")
  lead, stage, block, layer, leaf = match.groups()
  blocks = _blocks(names)
  if not blocks:
    return name
  # MobileNetV2 numbers its blocks through, EfficientNet within a stage.
  prefix = f"blocks.{int(stage) - 1}.{block}." if block else blocks[min(int(stage), len(blocks)) - 1]
  units = _units(prefix, names)
  first, _, second = layer.partition(".")
  if second.startswith("fc"):
    ours = f"se.{'conv_reduce' if second == 'fc1' else 'conv_expand'}"
  elif second:
    # Squeeze and excitation stands before the last unit.
    ours = units[min(int(first), len(units) - 1)][int(second)]
  else:
    # MobileNetV2 has no brackets around the layers of the last unit.
    ours = units[-1][min(max(int(first) - len(units) + 1, 0), 1)]
  return f"{lead}{prefix}{ours}.{leaf}"


def _swin_by_its_authors(name: str, names: frozenset[str]) -> str:
  """Reads Microsoft's Swin, and timm's before 0.9: downsampling ends a stage instead of beginning the next."""
  del names
  name = re.sub(r"(?<=layers\.)(\d)(?=\.downsample\.)", lambda match: str(int(match[1]) + 1), name)
  return re.sub(r"(^|\.)head\.(weight|bias)$", r"\1head.fc.\2", name)


def _convnext_by_its_authors(name: str, names: frozenset[str]) -> str:
  """Reads Facebook's ConvNeXt."""
  if "stages." not in name:
    name = re.sub(
      r"(^|\.)(?:head\.(?=\w+$)|norm\.)", lambda match: match[1] + _CONVNEXT_HEAD[match[0].strip(".")], name
    )
  return _CONVNEXT_RULES(name, names)


def _sequential_convmixer(name: str, names: frozenset[str]) -> str:
  """Spells the authors' CIFAR ConvMixer, a sequence without names: 0 and 2 are the stem, blocks begin at 3."""
  del names
  match = re.match(r"((?:[a-z_]\w*\.)*)(\d+)\.(0\.fn\.[02]\.|1\.|3\.)?(\w+)$", name)
  if match is None:
    return name
  prefix, number, layer = match[1], int(match[2]), match[3] or ""
  if layer:
    return f"{prefix}blocks.{number - 3}.{layer}{match[4]}"
  return f"{prefix}stem.{number}.{match[4]}" if number in (0, 2) else f"{prefix}head.{match[4]}"


_TORCHVISION_REGNET = _rules(
  (r"stem\.0\.", "stem.conv."),
  (r"stem\.1\.", "stem.bn."),
  (r"trunk_output\.block(\d)\.block\d-(\d+)\.", r"s\1.#\2."),
  (r"f\.a\.", "conv1."),
  (r"f\.b\.", "conv2."),
  (r"f\.c\.", "conv3."),
  (r"proj\.", "downsample."),
  (r"(conv\d|downsample)\.0\.", r"\1.conv."),
  (r"(conv\d|downsample)\.1\.", r"\1.bn."),
  (r"fc\.", "head.fc."),
)


def _torchvision_regnet(name: str, names: frozenset[str]) -> str:
  """Reads torchvision's RegNets; it counts blocks from 0, timm from 1."""
  return re.sub(r"#(\d+)", lambda match: f"b{int(match[1]) + 1}", _TORCHVISION_REGNET(name, names))


_CONVNEXT_HEAD = {"head": "head.fc.", "norm": "head.norm."}
_CONVNEXT_RULES = _rules(
  (r"downsample_layers\.0\.", "stem."),
  (r"downsample_layers\.", "stages."),
  (r"(stages\.\d+)\.(\d+\.(?:weight|bias)$)", r"\1.downsample.\2"),
  (r"(stages\.\d+)\.(\d+\.)", r"\1.blocks.\2"),
  (r"dwconv\.", "conv_dw."),
  (r"pwconv(\d)\.", r"mlp.fc\1."),
)


SPELLINGS: tuple[Spelling, ...] = (
  _same,
  # torchvision's DenseNets before 2018.
  _rules((r"(denselayer\d+\.(?:norm|conv))\.([12]\.)", r"\1\2")),
  # Sequential CNN-A without names (Wong and Kolter's and auto_LiRPA's files).
  _rules((r"0\.", "conv1."), (r"2\.", "conv2."), (r"5\.", "fc1."), (r"7\.", "fc2.")),
  # Heads by their other names.
  _rules((r"fc\.", "linear.")),
  _rules((r"linear\.", "fc.")),
  _rules((r"downsample\.", "shortcut.")),
  _rules((r"downsample\.", "shortcut."), (r"fc\.", "linear.")),
  _rules((r"shortcut\.", "downsample."), (r"linear\.", "fc.")),
  _efficientnet_pytorch,
  _torchvision_inverted,
  _torchvision_regnet,
  torchvision_vit,
  torchvision_swin,
  torchvision_convnext,
  _swin_by_its_authors,
  _convnext_by_its_authors,
  _sequential_convmixer,
)
