"""Learning-rate schedules by their values, and what decays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.training.optimizers import SCHEDULES, decays, make_optimizer

STEPS = 900


def rate(name, step, peak=0.2):
  return float(SCHEDULES[name](peak, STEPS)(step))


@pytest.mark.parametrize(
  ("name", "step", "wanted"),
  [
    ("cosine", 0, 0.2),
    ("cosine", 450, 0.1),
    ("cosine", 900, 0.0),
    ("step", 449, 0.2),
    ("step", 451, 0.02),
    ("step", 676, 0.002),
    ("step-30", 249, 0.2),
    ("step-30", 251, 0.02),
    ("step-30", 551, 0.002),
    ("step-30", 851, 0.0002),
    ("cyclic", 0, 0.0),
    ("cyclic", 180, 0.1),
    ("cyclic", 360, 0.2),
    ("cyclic", 900, 0.0),
    ("constant", 500, 0.2),
  ],
)
def test_rates(name, step, wanted):
  np.testing.assert_allclose(rate(name, step), wanted, atol=1e-7)


def test_biases_and_scales_do_not_decay():
  assert decays({"kernel": jnp.zeros((3, 3, 2, 4)), "scale": jnp.zeros(4)}) == {"kernel": True, "scale": False}
  tokens = ("cls_token", "pos_embed", "relative_position_bias_table")
  assert decays({"block": {name: jnp.zeros((1, 2, 4)) for name in tokens}}) == {"block": dict.fromkeys(tokens, False)}


def test_everything_decays_where_that_is_asked_for():
  params = {"kernel": jnp.ones((2, 2)), "scale": jnp.ones(2)}
  moved = {}
  for decay in ("weights", "all"):
    options = {"learning_rate": 1.0, "weight_decay": 0.5, "updates": 10, "warmup": 0, "decay": decay}
    optimizer = make_optimizer("sgd", "constant", **options)
    moved[decay], _ = optimizer.update(jax.tree.map(jnp.zeros_like, params), optimizer.init(params), params)
  # The first step of Nesterov's momentum moves by 1.9 gradients.
  np.testing.assert_allclose(moved["weights"]["kernel"], -0.95, rtol=1e-6)
  np.testing.assert_allclose(moved["weights"]["scale"], 0.0)
  np.testing.assert_allclose(moved["all"]["scale"], -0.95, rtol=1e-6)


def test_accumulated_gradients_make_one_update_of_their_mean():
  make = lambda accumulate: make_optimizer(
    "sgd", "constant", learning_rate=0.5, weight_decay=0.0, updates=10, warmup=0, accumulate=accumulate
  )
  params = {"w": jnp.ones((2, 2))}
  two, one = make(2), make(1)
  state = two.init(params)
  first, state = two.update({"w": jnp.full((2, 2), 1.0)}, state, params)
  second, _ = two.update({"w": jnp.full((2, 2), 3.0)}, state, params)
  whole, _ = one.update({"w": jnp.full((2, 2), 2.0)}, one.init(params), params)
  np.testing.assert_allclose(first["w"], 0.0)
  np.testing.assert_allclose(second["w"], whole["w"], rtol=1e-6)
