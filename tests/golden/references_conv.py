"""Our convolutional networks and the PyTorch networks they equal."""

from reference import Reference

_TIMM = (
  "resnet18 resnet34 resnet50 resnet101 resnet152 resnext50_32x4d resnext101_32x8d wide_resnet50_2 wide_resnet101_2"
)
# Ours, theirs.
_CIFAR = {
  "cifar-resnet18": "ResNet18",
  "cifar-resnet34": "ResNet34",
  "cifar-resnet50": "ResNet50",
  "cifar-resnet101": "ResNet101",
  "cifar-resnet152": "ResNet152",
}

_SMALLEST = {"resnet18", "resnext50_32x4d", "cifar-resnet18"}

REFERENCES = {name: Reference(f"timm:{name}") for name in _TIMM.split()}
REFERENCES |= {name: Reference(f"pytorch-cifar:models.{theirs}", 32, classes=10) for name, theirs in _CIFAR.items()}
REFERENCES = {name: row._replace(smallest=name in _SMALLEST) for name, row in REFERENCES.items()}
