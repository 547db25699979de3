"""The authors' reading of perceptual attacks: the last point counts, whatever was found on the way.

Ours is the first point that is verified to be a success, so that ours is at least as strong. Two readings differ:

  StAdv, ReColorAdv, PPGD   all iterations are made; the image after the last is judged.
  LPA                       an image that is misclassified inside the bound is moved once more, then left alone; at the
                            end it is projected. Margins are climbed up to 1, so one that is wrong by less than 1 still
                            makes a whole step, whose length begins at the bound itself: it often leaves the ball, and
                            what the projection brings back may be right again.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks.lpa import LPA
from jaxrobust.attacks.perceptual_steps import project
from jaxrobust.core.contract import bind_threat
from jaxrobust.core.gradients import ImageLogits
from jaxrobust.core.types import Problem


def last_points(attack: Any, model: Any, images: Any, labels: Any, eps: float, starts: Any = None) -> np.ndarray:
  """Returns the last points of images; `starts` replaces the noisy starts of perceptual attacks."""

  def one(model: Any, image: Any, label: Any, start: Any) -> Any:
    bound = bind_threat(attack, model)
    problem = Problem(image, label, jnp.asarray(-1), jnp.asarray(eps), jax.random.key(0))
    state = bound.init(problem)
    state = state if start is None else state._replace(image=start)

    def body(_: Any, carried: Any) -> Any:
      state, live = carried
      after, probe = bound.step(ImageLogits(model, problem.key), problem, state)
      state = jax.tree.map(lambda new, old: jnp.where(live, new, old), after, state)
      if isinstance(attack, LPA):
        live = live & ~((jnp.argmax(probe.logits) != label) & (probe.distance <= eps))
      return state, live

    state, _ = jax.lax.fori_loop(0, attack.num_steps, body, (state, jnp.asarray(True)))
    if isinstance(attack, LPA):
      return project(bound.threat, state.anchor, image, state.image, problem.eps)
    found = bound.candidate(problem, state)
    return found[0] if bound.threat.witnessed else found

  # The model is an argument, so that networks of one architecture share a program.
  axes = (None, 0, 0, None if starts is None else 0)
  return np.asarray(jax.jit(jax.vmap(one, in_axes=axes))(model, images, labels, starts))
