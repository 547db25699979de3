"""What counts as adversarial: one rule for the slots and the verification.

Without an attack an example is right if its label is the prediction (argmax), as everywhere else in the field.
"""

from __future__ import annotations

import jax.numpy as jnp

from jaxrobust.attacks.losses import margin
from jaxrobust.core.types import Array

# Two programs (another batch size, no gradient) agree on logits only to float32 rounding. A success
# nearer to the decision boundary than this fraction of the largest logit might not be one elsewhere.
MARGIN_RTOL = 2e-6


def adversarial(logits: Array, label: Array, target: Array, targeted: Array | bool) -> Array:
  """Whether one logit vector is a success.

  Untargeted: any class beats the label, even where a target steered the attack. Targeted: the target wins.
  Non-finite logits are a failure of the model, so they count as success; they are flagged elsewhere.

  >>> z = jnp.array([0.0, 2.0, 1.0])
  >>> bool(adversarial(z, 0, -1, False)), bool(adversarial(z, 1, -1, False)), bool(adversarial(z, 0, 2, True))
  (True, False, False)
  """
  goal = jnp.where(targeted, target, -1)
  beaten = margin(logits, label, goal) > MARGIN_RTOL * jnp.max(jnp.abs(logits))
  return beaten | ~jnp.all(jnp.isfinite(logits))
