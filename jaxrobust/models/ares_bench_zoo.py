"""The 55 networks of ARES-Bench (arXiv:2302.14301, Table 2): our architecture of each, and where its weights are.

Names, files and normalizations are those of the authors' `imagenet_model_zoo.py` (github.com/thu-ml/ares). Nothing is
downloaded; a checkpoint becomes a classifier with the command that `convert_command` gives:

  jaxrobust list ares-bench 'vitb*'
"""

from __future__ import annotations

from typing import NamedTuple

from jaxrobust.models.registry import IMAGENET_MEAN, IMAGENET_STD, INCEPTION_MEAN, INCEPTION_STD

_FILES = "https://ml.cs.tsinghua.edu.cn/~xiaoyang/aresbench/ckpt-imagenet/ARES_"
_NORMALIZATIONS = {
  "imagenet": (IMAGENET_MEAN, IMAGENET_STD),
  "inception": (INCEPTION_MEAN, INCEPTION_STD),
  "none": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
}
# Name, our architecture, where: timm's or torchvision's own name, or a file of the authors; normalization.
_ROWS = """
resnet50_normal    resnet50                       torchvision:resnet50                    imagenet
resnet50_moco      resnet50                       ResNet50_MOCO                           imagenet
resnet50_at        resnet50                       ResNet50_AT                             imagenet
resnet50_sota1     resnet50                       ResNet50_RB1                            imagenet
resnet50_sota2     resnet50                       ResNet50_RB2                            imagenet
resnet101_normal   resnet101                      torchvision:resnet101                   imagenet
resnet101_at       resnet101                      ResNet101_AT                            imagenet
resnet152_normal   resnet152                      torchvision:resnet152                   imagenet
resnet152_at       resnet152_gelu                 ResNet152_AT                            imagenet
resnet152_fd       resnet152-denoise              ResNet152_FD                            none
wresnet50_normal   wide_resnet50_2                timm:wide_resnet50_2                    imagenet
wresnet50_at       wide_resnet50_2_gelu           Wide_ResNet50_2_AT                      imagenet
wresnet50_sota     wide_resnet50_2                Wide_ResNet50_2_RB                      imagenet
vgg13_normal       vgg13                          timm:vgg13                              imagenet
vgg16_normal       vgg16                          timm:vgg16                              imagenet
vgg19_normal       vgg19                          timm:vgg19                              imagenet
densenet121_normal densenet121                    torchvision:densenet121                 imagenet
densenet161_normal densenet161                    timm:densenet161                        imagenet
densenet201_normal densenet201                    timm:densenet201                        imagenet
convs_normal       convnext_small                 timm:convnext_small                     imagenet
convs_21k          convnext_small                 timm:convnext_small_in22ft1k            imagenet
convb_normal       convnext_base                  timm:convnext_base                      imagenet
convb_21k          convnext_base                  timm:convnext_base_in22ft1k             imagenet
convl_normal       convnext_large                 timm:convnext_large                     imagenet
convl_21k          convnext_large                 timm:convnext_large_in22ft1k            imagenet
convnexts_at       convnext_small                 ConvNext_Small_AT                       imagenet
convnextb_at       convnext_base                  ConvNext_Base_AT                        imagenet
convnextl_at       convnext_large                 ConvNext_Large_AT                       imagenet
swins_normal       swin_small_patch4_window7_224  timm:swin_small_patch4_window7_224      imagenet
swins_21k          swin_small_patch4_window7_224  Swin_small_patch4_window7_224_21K       imagenet
swins_at           swin_small_patch4_window7_224  Swin_small_patch4_window7_224_AT        imagenet
swinb_normal       swin_base_patch4_window7_224   Swin_base_patch4_window7_224_Normal     imagenet
swinb_21k          swin_base_patch4_window7_224   timm:swin_base_patch4_window7_224       imagenet
swinb_at           swin_base_patch4_window7_224   Swin_base_patch4_window7_224_AT         imagenet
swinl_21k          swin_large_patch4_window7_224  timm:swin_large_patch4_window7_224      imagenet
swinl_at           swin_large_patch4_window7_224  Swin_large_patch4_window7_224_AT        imagenet
vits_normal        vit_small_patch16_224          ViT_small_patch16_224_Normal            inception
vits_21k           vit_small_patch16_224          timm:vit_small_patch16_224              inception
vits_at            vit_small_patch16_224          ViT_small_patch16_224_AT                imagenet
vitb_normal        vit_base_patch16_224           ViT_base_patch16_224_Normal             inception
vitb_21k           vit_base_patch16_224           timm:vit_base_patch16_224               inception
vitb_at            vit_base_patch16_224           ViT_base_patch16_224_AT                 imagenet
vitb_mae           vit_base_patch16_224_mae       ViT_base_patch16_224_MAE                imagenet
vitl_normal        vit_large_patch16_224          ViT_large_patch16_224_Normal            inception
vitl_21k           vit_large_patch16_224          timm:vit_large_patch16_224              inception
vitl_mae           vit_large_patch16_224_mae      ViT_large_patch16_224_MAE               imagenet
t2t14_normal       t2t_vit_t_14                   T2T_ViT_14_Normal                       imagenet
t2t19_normal       t2t_vit_t_19                   T2T_ViT_19_Normal                       imagenet
t2t24_normal       t2t_vit_t_24                   T2T_ViT_24_Normal                       imagenet
xcits_normal       xcit_small_24_p16_224          timm:xcit_small_24_p16_224              imagenet
xcits_sota         xcit_small_12_p16_224          XciT_small_12_p16_224_RB                none
xcitm_normal       xcit_medium_24_p16_224         timm:xcit_medium_24_p16_224             imagenet
xcitm_sota         xcit_medium_12_p16_224         XciT_medium_12_p16_224_RB               none
xcitl_normal       xcit_large_24_p16_224          timm:xcit_large_24_p16_224              imagenet
xcitl_sota         xcit_large_12_p16_224          XciT_large_12_p16_224_RB                none
"""


class PublishedNetwork(NamedTuple):
  """A network whose weights others publish."""

  arch: str
  where: str
  mean: tuple[float, ...]
  std: tuple[float, ...]

  @property
  def convert_command(self) -> str:
    """Returns the command that makes a classifier of the downloaded file."""
    numbers = (",".join(f"{value:g}" for value in values) for values in (self.mean, self.std))
    mean, std = numbers
    return f"jaxrobust convert FILE --arch={self.arch} --mean={mean} --std={std} --out=FOLDER"


def _read() -> dict[str, PublishedNetwork]:
  found = {}
  for line in _ROWS.split("\n"):
    if line:
      name, arch, where, how = line.split()
      found[name] = PublishedNetwork(arch, where if ":" in where else f"{_FILES}{where}.pth", *_NORMALIZATIONS[how])
  return found


ARES_BENCH_NETWORKS = _read()
