"""What counts as adversarial: one rule for the slots, for the oracle of decision attacks and for the verification.

Without an attack an example is right if its label is the prediction (argmax), as everywhere else in the field.
"""

from __future__ import annotations

import jax.numpy as jnp

from jaxrobust.attacks.losses import margin
from jaxrobust.core.types import Array

# Two programs (another batch size, no gradient) agree on logits only to float32 rounding. A success
# nearer to the decision boundary than this fraction of the largest logit might not be one elsewhere.
MARGIN_RTOL = 2e-6
# What attacks must see before they may keep a point as their success: farther from the boundary than the verification
# wants, which would otherwise now and then reject the closest point, and call the example robust.
CLAIM_RTOL = 4e-6


def goal_met(logits: Array, label: Array, target: Array, targeted: Array | bool, rtol: float = MARGIN_RTOL) -> Array:
  """Returns whether one logit vector is a success.

  Untargeted: any class beats the label, even where a target steered the attack. Targeted: the target wins.
  Non-finite logits are a failure of the model, so they count as success; they are flagged elsewhere.

  >>> z = jnp.array([0.0, 2.0, 1.0])
  >>> bool(goal_met(z, 0, -1, False)), bool(goal_met(z, 1, -1, False)), bool(goal_met(z, 0, 2, True))
  (True, False, False)
  """
  goal = jnp.where(targeted, target, -1)
  beaten = margin(logits, label, goal) > rtol * jnp.max(jnp.abs(logits))
  return beaten | ~jnp.all(jnp.isfinite(logits))
