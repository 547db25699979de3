"""Our transformers and modern networks, and the PyTorch networks they equal."""

from reference import Reference


def _small_patches(network):
  """Patches of 4 pixels instead of 16, as in arXiv:2209.07399: the first two convolutions keep the resolution."""
  for index in (0, 2):
    network.patch_embed.proj[index][0].stride = (1, 1)


_TIMM = """
  vit_small_patch16_224 vit_base_patch16_224 vit_base_patch32_224 vit_large_patch16_224
  deit_tiny_patch16_224 deit_small_patch16_224 deit_base_patch16_224 mixer_b16_224 mixer_l16_224
  swin_tiny_patch4_window7_224 swin_small_patch4_window7_224 swin_base_patch4_window7_224
  swin_large_patch4_window7_224 convnext_tiny convnext_small convnext_base convnext_large
  xcit_small_12_p16_224 xcit_small_24_p16_224 xcit_medium_24_p16_224 xcit_large_24_p16_224
  convmixer_768_32 convmixer_1536_20
  deit_tiny_distilled_patch16_224 deit_small_distilled_patch16_224 deit_base_distilled_patch16_224
  deit3_small_patch16_224 deit3_medium_patch16_224 deit3_base_patch16_224
"""
# The smaller ones have 1×1 convolutions where the larger, and ours, have matrices.
_CONVNEXT_V2 = ("atto", "femto", "pico", "nano", "tiny", "base", "large")
# Features, heads.
_XCIT = {"small": (384, 8), "medium": (512, 8), "large": (768, 16)}
# Ours, theirs.
_CONV_STEM = {
  "vit_small_patch16_224_cvst": "vit_s",
  "vit_medium_patch16_224_cvst": "vit_m",
  "vit_base_patch16_224_cvst": "vit_b",
  "convnext_tiny_cvst": "convnext_tiny",
  "convnext_small_cvst": "convnext_small",
  "convnext_base_cvst": "convnext_base",
  "convnext_large_cvst": "convnext_large",
}
_SMALLEST = {
  "deit_tiny_patch16_224",
  "cifar-convmixer_256_8",
  "cifar-xcit_small_12_p4",
  "convnext_tiny",
  "convnextv2_atto",
  "deit_tiny_distilled_patch16_224",
  "mixer_b16_224",
  "swin_tiny_patch4_window7_224",
  "t2t_vit_14",
  "vit_small_patch16_224_cvst",
  "vitae_tiny",
}


def _xcit(size, image_size, classes, edit=lambda network: None):
  features, heads = _XCIT[size]
  options = {"embed_dim": features, "depth": 12, "num_heads": heads, "tokens_norm": True, "num_classes": classes}
  return Reference("python:timm.models.xcit.Xcit", image_size, options, classes=classes, edit=edit)


def _conv_stem(name):
  return Reference(
    "revisiting-at:utils_architecture.get_new_model",
    options={"modelname": name, "pretrained": False, "not_original": True},
  )


REFERENCES = {name: Reference(f"timm:{name}") for name in _TIMM.split()}
REFERENCES |= {
  f"convnextv2_{size}": Reference(f"timm:convnextv2_{size}", options={"conv_mlp": False}) for size in _CONVNEXT_V2
}
REFERENCES |= {f"xcit_{size}_12_p16_224": _xcit(size, 224, 1000) for size in ("medium", "large")}
REFERENCES |= {f"cifar-xcit_{size}_12_p4": _xcit(size, 32, 10, _small_patches) for size in _XCIT}
REFERENCES |= {ours: _conv_stem(theirs) for ours, theirs in _CONV_STEM.items()}
REFERENCES["cifar-vit_base_patch4"] = Reference(
  "timm:vit_base_patch16_224", 32, {"img_size": 32, "patch_size": 4}, classes=10
)
REFERENCES |= {
  f"{name}_mae": Reference(f"timm:{name}", options={"global_pool": "avg"})
  for name in ("vit_base_patch16_224", "vit_large_patch16_224")
}
REFERENCES |= {
  name: Reference(f"timm:{name}")
  for name in (f"vit_{size}_clip_quickgelu_224" for size in ("base_patch16", "base_patch32", "large_patch14"))
}
REFERENCES["cifar-convmixer_256_8"] = Reference(
  "python:timm.models.convmixer.ConvMixer",
  32,
  {"dim": 256, "depth": 8, "kernel_size": 5, "patch_size": 2, "num_classes": 10},
  classes=10,
)
# Smaller weights, for the random features of linear attention vanish beyond a few standard deviations.
REFERENCES |= {
  name: Reference(f"T2T-ViT:models.t2t_vit.{name}", gain=0.3)
  for name in ("t2t_vit_14", "t2t_vit_19", "t2t_vit_24", "t2t_vit_t_14", "t2t_vit_t_19", "t2t_vit_t_24")
}
REFERENCES |= {
  f"vitae_{size}": Reference(f"ViTAE:vitae.ViTAE.ViTAE_basic_{size.capitalize()}", gain=0.5)
  for size in ("tiny", "small")
}
REFERENCES = {name: row._replace(smallest=name in _SMALLEST) for name, row in REFERENCES.items()}
