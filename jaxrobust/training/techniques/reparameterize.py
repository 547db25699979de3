"""RepVGG: trained with three branches per layer, saved with one; Ding et al. 2021 (arXiv:2101.03697).

Training is that of the three-branch form; whatever is saved as a classifier, the best epoch and the last, is the
fused form, which computes the same function with one 3×3 convolution per layer. Checkpoints keep the branches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxrobust.core.errors import InputError
from jaxrobust.models.families.repvgg import fuse
from jaxrobust.training.technique import TECHNIQUES, Export


@TECHNIQUES.register("repvgg")
@dataclasses.dataclass(frozen=True)
class Reparameterization(Export):
  """Saves the fused form of a RepVGG."""

  def exported(self, arch: str, options: Mapping[str, Any]) -> dict[str, Any]:
    if not arch.startswith("repvgg") or options.get("fused"):
      raise InputError(
        f"technique 'repvgg' fuses a RepVGG in its train form, not {arch} {dict(options) or ''}".rstrip()
      )
    return {**options, "fused": True}

  def export(self, variables: Any) -> Any:
    return fuse(variables)
