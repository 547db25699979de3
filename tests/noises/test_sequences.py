"""Perturbation sequences and low-pass filters: frame counts, ranges, and a few frames by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.evaluation.metrics.flips import is_noise
from jaxrobust.noises import sequences
from jaxrobust.noises.lowpass import low_pass
from jaxrobust.noises.sequences import SEQUENCES, make_sequence

IMAGE = np.random.RandomState(0).rand(32, 40, 3).astype(np.float32).round(2)
STILL = {"brightness": 15, "rotate": 15, "shear": 15, "scale": 24, "zoom_blur": 0}


def test_names():
  assert set(sequences.BENCHMARK) | set(sequences.EXTRA) == set(SEQUENCES) and len(SEQUENCES) == 14


@pytest.mark.parametrize("name", sorted(sequences.BENCHMARK + sequences.EXTRA))
def test_frames(name):
  for table in (224, 32):
    sequence = make_sequence(name, table)
    frames = np.asarray(jax.jit(sequence)(IMAGE, jax.random.key(0)))
    assert frames.shape == (sequence.frames, *IMAGE.shape) and frames.min() >= 0 and frames.max() <= 1
    changed = np.abs(np.diff(frames, axis=0)).max((1, 2, 3)) > 0
    # A line of a few whole pixels stays the same over some degrees.
    assert changed.mean() > (0.5 if name in ("motion_blur", "snow") else 0.999)
    if is_noise(name):
      assert np.abs(frames[0] - IMAGE).max() <= 1 / 255 + 1e-4
  if name in STILL:
    table = 224
    still = np.asarray(make_sequence(name, table)(IMAGE, jax.random.key(0)))[STILL[name]][2:-2, 2:-2]
    assert np.abs(still - IMAGE[2:-2, 2:-2]).max() <= 0.06, "the frame in the middle of the range is the image"


def test_translation_moves_by_whole_pixels():
  frames = np.asarray(make_sequence("translate")(IMAGE, jax.random.key(0)))
  np.testing.assert_allclose(frames[23][:, 3:], np.floor(IMAGE * 255 + 1e-3)[:, :-3] / 255, atol=1 / 255)
  assert (frames[23][:, :2] == 0).all()


def test_low_pass_keeps_a_centered_square_of_frequencies():
  x = np.arange(32)[None].repeat(32, 0)
  wave = lambda f: (0.5 + 0.2 * np.cos(2 * np.pi * f * x / 32))[..., None].repeat(3, -1).astype(np.float32)
  np.testing.assert_allclose(low_pass(jnp.asarray(wave(3)), 8), wave(3), atol=1e-5)
  np.testing.assert_allclose(low_pass(jnp.asarray(wave(5)), 8), np.full((32, 32, 3), 0.5), atol=1e-5)
