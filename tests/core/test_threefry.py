"""Random numbers drawn without a loop are JAX's, to the last bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.core.threefry import computed_once, gaussian, normal, symmetric, threefry_2x32, unrolled

WORDS = np.array([[1, 2], [0, 0], [0xFFFFFFFF, 0x12345678]], np.uint32)


@pytest.mark.parametrize(
  "draw",
  [
    lambda key: jax.random.uniform(key, (4, 5, 3), minval=-1.0),
    lambda key: jax.random.uniform(key),
    lambda key: jax.random.normal(key, (7,)),
    lambda key: jax.random.normal(key, (0,)),
    lambda key: jax.random.bernoulli(key, 0.3, (9,)),
    lambda key: jax.random.randint(key, (3, 3), 0, 10),
    lambda key: jax.random.permutation(key, 11),
    lambda key: jax.random.bits(key, (5,), jnp.uint8),
    lambda key: jax.random.bits(key, (5,), jnp.uint16),
    lambda key: jax.random.normal(jax.random.fold_in(key, 7), (3,)),
    lambda key: jax.random.uniform(jax.random.split(key, 3)[1], (3,)),
  ],
)
def test_draws_are_those_of_jax(draw):
  keys = jax.random.wrap_key_data(WORDS)
  ours, theirs = jax.vmap(lambda key: draw(unrolled(key)))(keys), jax.vmap(draw)(keys)
  np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


@pytest.mark.parametrize("shape", [(4, 5, 3), (1,), (0,), ()])
def test_normal_draws_are_those_of_jax(shape):
  keys = jax.random.wrap_key_data(WORDS)
  theirs = jax.vmap(lambda key: jax.random.normal(key, shape))(keys)
  np.testing.assert_array_equal(np.asarray(jax.vmap(lambda key: normal(key, shape))(keys)), np.asarray(theirs))


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="barriers hold on accelerators")
@pytest.mark.parametrize("draw", [lambda key: gaussian(symmetric(key, 60)), lambda key: normal(key, (4, 5, 3))])
def test_a_draw_is_not_hashed_anew_for_each_use(draw):
  keys = jax.random.wrap_key_data(WORDS)
  text = jax.jit(jax.vmap(draw)).lower(keys).compile().as_text()
  parts = text.split("\n}\n")
  assert any(" xor(" in part for part in parts) and any(" log" in part for part in parts)
  assert not any(" xor(" in part and " log" in part for part in parts)


def test_what_is_computed_once_stays_as_it_is():
  values = jnp.array([[-3.0, 0.0], [jnp.nan, jnp.inf], [1.0, 2.0]])
  np.testing.assert_array_equal(computed_once(values), values)


def test_the_hash_has_the_published_answers():
  # Random123's known answers for threefry2x32, 20 rounds.
  full = 0xFFFFFFFF
  for words, counter, answer in (
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((full, full), (full, full), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
  ):
    high, low = (jnp.asarray([word], jnp.uint32) for word in counter)
    hashed = threefry_2x32(jnp.asarray(words, jnp.uint32), high, low)
    assert tuple(int(word[0]) for word in hashed) == answer


def test_other_keys_come_back_as_they_are():
  other, twice = jax.random.key(0, impl="rbg"), unrolled(jax.random.key(0))
  assert unrolled(other) is other and unrolled(twice) is twice
  old = jax.random.PRNGKey(4)
  np.testing.assert_array_equal(jax.random.normal(unrolled(old), (3,)), jax.random.normal(old, (3,)))


def test_bits_are_split_over_devices_as_the_array_is():
  mesh = jax.make_mesh((len(jax.devices()),), ("d",))
  sharding = jax.sharding.NamedSharding(mesh, jax.P("d"))
  count = 4 * len(jax.devices())
  key = jax.random.key(8)
  spread = jax.jit(lambda key: jax.random.uniform(unrolled(key), (count,)), out_shardings=sharding)(key)
  np.testing.assert_array_equal(np.asarray(spread), jax.random.uniform(key, (count,)))
