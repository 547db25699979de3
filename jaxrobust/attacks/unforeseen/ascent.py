"""The attack of ImageNet-UA: steps of one length along the gradient of an offset, projected.

  w_{k+1} = P(w_k + s u(grad ce(render(x, w_k))))

u is the sign or g / (|g|_2 + 1e-8), s a length in the offset's own unit, the same for every budget; P the projection
of the threat. The threats are the files beside this one. Untargeted and targeted.

Source: Kaufmann et al. 2019, version 3 of 2023 (arXiv:1908.08016), with the authors' code
(github.com/centerforaisafety/adversarial-corruptions); the defaults of every threat are theirs for CIFAR-10.
Known deviations of all of them: the first image that is misclassified is the result, where the authors' is the last;
what is random is drawn for each image, of which they draw some numbers for a batch; a budget of zero returns the image
itself, also where theirs would still lay a texture over it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from jaxrobust.attacks.witness_descent import DescentState, WitnessAttack
from jaxrobust.core.lpips import length
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.types import Array, Problem

DIRECTIONS = {"sign": jnp.sign, "l2": lambda gradient: gradient / (length(gradient) + 1e-8)}


@dataclass(frozen=True)
class SceneAscent(WitnessAttack):
  """Ascends the loss of a rendered image by steps of a fixed length in what it is rendered from.

  Attributes:
    threat: what is rendered, and how it is measured.
    direction: `sign` or `l2`: what becomes of a gradient.

  Example:
    >>> from jaxrobust.attacks.registry import make_attack
    >>> attack = make_attack("wood", num_steps=10)
    >>> attack.threat.name, attack.step_length
    ('rings', 0.000625)
  """

  threat: Any
  num_steps: int
  step_length: float
  name: str
  direction: str = "sign"
  loss: str = "ce"
  pieces: ClassVar[tuple[str, ...]] = ("threat",)

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.direction not in DIRECTIONS:
      raise unknown_name("direction", self.direction, list(DIRECTIONS))

  def move(self, problem: Problem, state: DescentState, gradient: Any) -> tuple[Any, Any]:
    del problem

    def moved(offset: Array, slope: Array) -> Array:
      return offset + self.step_length * DIRECTIONS[self.direction](slope)

    return jax.tree.map(moved, state.scene.offset, gradient), state.memory
