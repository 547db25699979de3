"""What a golden file is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


class Reference(NamedTuple):
  """A PyTorch network.

  Attributes:
    source: "timm:NAME", "torchvision:NAME", "python:FUNCTION" of an installed package, or "FOLDER:FUNCTION" of a
      checkout (see make_model_goldens.py).
    size: side of the input images.
    options: keyword arguments of its constructor.
    gain: the first to try, see `deterministic.draw`.
    classes: length of its logits.
    smallest: of its family, so its logits are compared in every test run.
    edit: changes the built network.
  """

  source: str
  size: int = 224
  options: Mapping[str, Any] = MappingProxyType({})
  gain: float = 1.0
  classes: int = 1000
  smallest: bool = False
  edit: Callable[[Any], None] = lambda network: None
