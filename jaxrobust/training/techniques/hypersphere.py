"""Hypersphere embedding: normalized features and weights, and an angular margin; Pang et al. 2020 (arXiv:2002.08619).

  f_k(x) = s cos(x, w_k),     trained as f_k - s m for the true class k

`he` changes the head of the network (it is saved and evaluated in that form) and the classification loss of the
objective beside it: `("pgd-at", "he")`, `("trades", "he")`, `("alp", "he")` are the paper's three, alone it is
standard training. Crafting and TRADES' divergence see no margin. Defaults: scale s 15, margin m 0.2.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.training.technique import TECHNIQUES, LogitMargin


@TECHNIQUES.register("he")
@dataclasses.dataclass(frozen=True)
class HypersphereEmbedding(LogitMargin):
  """`scale` times cosines as logits; the margin `cosine` is taken from the true class's while training."""

  scale: float = 15.0
  cosine: float = 0.2

  def __post_init__(self) -> None:
    if not self.scale > 0 or not 0 <= self.cosine < 1:
      raise InputError(f"the scale must be positive and the margin in [0, 1), got {self.scale} and {self.cosine}")

  @property
  def arch_options(self) -> dict[str, Any]:
    return {"hypersphere": self.scale}

  def margin(self, logits: Array, targets: Array) -> Array:
    return logits - self.scale * self.cosine * targets
