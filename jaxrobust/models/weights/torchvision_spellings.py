"""torchvision's names of networks that our layers call by timm's names: ConvNeXt, Swin, ViT and MobileNetV3."""

from __future__ import annotations

import re

_VIT = (
  (r"\bconv_proj\.", "patch_embed.proj."),
  (r"\bclass_token$", "cls_token"),
  (r"\bencoder\.pos_embedding$", "pos_embed"),
  (r"\bencoder\.layers\.encoder_layer_(\d+)\.", r"blocks.\1."),
  (r"\bln_([12])\.", r"norm\1."),
  (r"\bself_attention\.in_proj_", "attn.qkv."),
  (r"\bself_attention\.out_proj\.", "attn.proj."),
  (r"\bmlp\.(?:0|linear_1)\.", "mlp.fc1."),
  (r"\bmlp\.(?:3|linear_2)\.", "mlp.fc2."),
  (r"\bencoder\.ln\.", "norm."),
  (r"\bheads\.head\.", "head."),
)
# Layers of a block by their places in it.
_CONVNEXT = {"0": "conv_dw", "2": "norm", "3": "mlp.fc1", "5": "mlp.fc2"}
_SWIN = {"mlp.0": "mlp.fc1", "mlp.3": "mlp.fc2"}


def torchvision_vit(name: str, names: frozenset[str]) -> str:
  """Spells torchvision's ViT; queries, keys and values are one matrix there too.

  >>> torchvision_vit("encoder.layers.encoder_layer_3.self_attention.in_proj_weight", frozenset())
  'blocks.3.attn.qkv.weight'
  """
  del names
  for pattern, text in _VIT:
    name = re.sub(pattern, text, name)
  return name


def torchvision_convnext(name: str, names: frozenset[str]) -> str:
  """Spells torchvision's ConvNeXt: odd features are stages, even ones what leads to them.

  >>> torchvision_convnext("features.3.1.block.5.weight", frozenset())
  'stages.1.blocks.1.mlp.fc2.weight'
  """
  del names
  if match := re.search(r"\bfeatures\.(\d)\.(\d+)\.(?:block\.(\d)\.|layer_scale$)", name):
    layer = f"{_CONVNEXT[match[3]]}." if match[3] in _CONVNEXT else "gamma"
    return f"{name[: match.start()]}stages.{int(match[1]) // 2}.blocks.{match[2]}.{layer}{name[match.end() :]}"
  name = re.sub(r"\bfeatures\.0\.([01])\.", r"stem.\1.", name)
  name = re.sub(r"\bfeatures\.([246])\.([01])\.", lambda m: f"stages.{int(m[1]) // 2}.downsample.{m[2]}.", name)
  return re.sub(r"\bclassifier\.([02])\.", lambda m: "head.norm." if m[1] == "0" else "head.fc.", name)


def torchvision_swin(name: str, names: frozenset[str]) -> str:
  """Spells torchvision's Swin, numbered like its ConvNeXt.

  >>> torchvision_swin("features.2.reduction.weight", frozenset())
  'layers.1.downsample.reduction.weight'
  """
  del names
  name = re.sub(r"\bfeatures\.0\.([02])\.", lambda m: f"patch_embed.{'proj' if m[1] == '0' else 'norm'}.", name)
  name = re.sub(r"\bfeatures\.([246])\.(?=norm|reduction)", lambda m: f"layers.{int(m[1]) // 2}.downsample.", name)
  name = re.sub(r"\bfeatures\.([1357])\.(\d+)\.", lambda m: f"layers.{int(m[1]) // 2}.blocks.{m[2]}.", name)
  name = re.sub(r"\bmlp\.[03](?=\.)", lambda m: _SWIN[m[0]], name)
  return re.sub(r"(^|\.)head\.(weight|bias)$", r"\1head.fc.\2", name)


def torchvision_mobilenet_v3(name: str, names: frozenset[str]) -> str:
  """Spells the ends of torchvision's MobileNetV3, whose blocks are spelled as those of its MobileNetV2.

  >>> ours = frozenset({"blocks.0.0.conv_dw.weight", "blocks.1.0.conv.weight"})
  >>> torchvision_mobilenet_v3("features.2.0.weight", ours), torchvision_mobilenet_v3("classifier.3.bias", ours)
  ('blocks.1.0.conv.weight', 'classifier.bias')
  """
  heads = [found[1] for found in (re.match(r"(blocks\.\d+\.0\.)conv\.weight$", own) for own in names) if found]
  if heads and (match := re.search(r"\bfeatures\.([1-9]\d*)\.([01])\.(?=\w+$)", name)):
    return f"{name[: match.start()]}{heads[0]}{'conv' if match[2] == '0' else 'bn1'}.{name[match.end() :]}"
  return re.sub(r"\bclassifier\.([03])\.", lambda m: "conv_head." if m[1] == "0" else "classifier.", name)
