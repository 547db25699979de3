"""Our convolutional networks and the PyTorch networks they equal."""

from reference import Reference
from torch import nn

_TIMM = """
  resnet18 resnet34 resnet50 resnet101 resnet152 resnext50_32x4d resnext101_32x8d wide_resnet50_2 wide_resnet101_2
  densenet121 densenet161 densenet169 densenet201 efficientnet_b0 efficientnet_lite0 tf_efficientnet_lite0
  tf_efficientnet_b0 mobilenetv2_050 mobilenetv2_075 mobilenetv2_100 mobilenetv2_140 mobilenetv3_large_075
  mobilenetv3_large_100 regnetx_004 regnetx_008 regnetx_016 regnetx_032 regnetx_064 repvgg_a0 repvgg_b3
  resnet18d resnet34d resnet50d resnet101d mobilenetv3_small_050 mobilenetv3_small_075 mobilenetv3_small_100
"""
_TORCHVISION = """
  shufflenet_v2_x0_5 shufflenet_v2_x1_0 shufflenet_v2_x1_5 shufflenet_v2_x2_0 vgg11 vgg13 vgg16 vgg19 vgg11_bn vgg13_bn
  vgg16_bn vgg19_bn alexnet
"""
# Ours, theirs.
_CIFAR = {
  "cifar-resnet18": "ResNet18",
  "cifar-resnet34": "ResNet34",
  "cifar-resnet50": "ResNet50",
  "cifar-resnet101": "ResNet101",
  "cifar-resnet152": "ResNet152",
  "cifar-densenet121": "DenseNet121",
  "cifar-googlenet": "GoogLeNet",
  "cifar-dla": "DLA",
  "cifar-senet18": "SENet18",
  "cifar-mobilenetv2": "MobileNetV2",
  "cifar-efficientnet_b0": "EfficientNetB0",
  "cifar-resnext29_2x64d": "ResNeXt29_2x64d",
  "cifar-resnext29_4x64d": "ResNeXt29_4x64d",
  "cifar-resnext29_8x64d": "ResNeXt29_8x64d",
  "cifar-resnext29_32x4d": "ResNeXt29_32x4d",
  "preactresnet18": "PreActResNet18",
}
_ROBUSTBENCH = "robustbench/robustbench/model_zoo/architectures"
_WIDE = ((28, 4), (28, 10), (34, 10), (34, 20), (70, 16), (106, 16))
_SMALLEST = """
  resnet18 resnet18d cifar-resnet18 densenet121 tf_efficientnet_lite0 mobilenetv2_050 mobilenetv3_large_035
  mobilenetv3_small_050 regnetx_004 repvgg_a0 shufflenet_v2_x0_5 vgg11_bn alexnet googlenet
  cifar-vgg11_bn cifar-dla cifar-senet18 cifar-mobilenetv2 cifar-efficientnet_b0 cifar-resnext29_32x4d preactresnet18
  cifar-googlenet cifar-inception_v3 wrn-28-4 dm-wrn-28-4
"""

_GELU = ("resnet50", "resnet152", "wide_resnet50_2")


def _smooth(network):
  """GELU in place of every ReLU, as timm's `act_layer` has it."""
  from torch import nn

  for module in list(network.modules()):
    for name, child in module.named_children():
      if isinstance(child, nn.ReLU):
        setattr(module, name, nn.GELU())


REFERENCES = {name: Reference(f"timm:{name}") for name in _TIMM.split()}
REFERENCES |= {name: Reference(f"torchvision:{name}") for name in _TORCHVISION.split()}
REFERENCES |= {
  f"efficientnet_{name}": Reference(f"timm:efficientnet_{name}", size)
  for name, size in (("b1", 240), ("b2", 256), ("b3", 288), ("b4", 320))
}
REFERENCES |= {
  f"mobilenetv3_large_{name}": Reference(
    "python:timm.models.mobilenetv3._gen_mobilenet_v3",
    options={"variant": "mobilenetv3_large_100", "channel_multiplier": width},
  )
  for name, width in (("035", 0.35), ("050", 0.5), ("140", 1.4))
}
REFERENCES |= {f"{name}_gelu": Reference(f"timm:{name}", edit=_smooth) for name in _GELU}
REFERENCES["inception_v3"] = Reference("timm:inception_v3", 299)
REFERENCES["googlenet"] = Reference("torchvision:googlenet", options={"aux_logits": False, "init_weights": False})
REFERENCES |= {name: Reference(f"pytorch-cifar:models.{theirs}", 32, classes=10) for name, theirs in _CIFAR.items()}
REFERENCES |= {
  f"cifar-vgg{depth}_bn": Reference("pytorch-cifar:models.VGG", 32, {"vgg_name": f"VGG{depth}"}, classes=10)
  for depth in (11, 13, 16, 19)
}
REFERENCES["cifar-inception_v3"] = Reference("PyTorch_CIFAR10:cifar10_models.inception.inception_v3", 32, classes=10)
for _depth, _width in _WIDE:
  REFERENCES[f"wrn-{_depth}-{_width}"] = Reference(
    f"{_ROBUSTBENCH}:wide_resnet.WideResNet", 32, {"depth": _depth, "widen_factor": _width}, classes=10
  )
  _options = {"depth": _depth, "width": _width, "activation_fn": nn.SiLU, "mean": (0.0,) * 3, "std": (1.0,) * 3}
  REFERENCES[f"dm-wrn-{_depth}-{_width}"] = Reference(
    f"{_ROBUSTBENCH}:dm_wide_resnet.DMWideResNet", 32, _options, classes=10
  )
_GELU = ("resnet50", "resnet152", "wide_resnet50_2")


def _smooth(network):
  """GELU in place of every ReLU, as timm's `act_layer` has it."""
  from torch import nn

  for module in list(network.modules()):
    for name, child in module.named_children():
      if isinstance(child, nn.ReLU):
        setattr(module, name, nn.GELU())


REFERENCES = {name: row._replace(smallest=name in _SMALLEST.split()) for name, row in REFERENCES.items()}
