"""A denoiser learns to undo what an attack did to a classifier."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.defenses.denoiser import SmallDenoiser, fit_denoiser, save_denoiser
from jaxrobust.defenses.registry import make_defense
from jaxrobust.models.zoo import fingerprint


def test_a_denoiser_brings_logits_back_and_is_stored_by_its_weights(tmp_path):
  rng = np.random.default_rng(0)
  weights = jnp.asarray(rng.choice([-1.0, 1.0], size=(8 * 8 * 3, 2)), jnp.float32)
  network = Classifier.from_function(lambda w, x: x.reshape(len(x), -1) @ w, 2, variables=weights, name="linear")
  # Smooth images, on which the signs of the weights are noise.
  images = np.repeat(np.repeat(rng.uniform(0.3, 0.7, (64, 2, 2, 3)), 4, 1), 4, 2).astype(np.float32)
  found = fit_denoiser(network, images, eps=0.1, epochs=60, batch=32, width=4, learning_rate=1e-2)
  save_denoiser(tmp_path / "one", found)
  save_denoiser(tmp_path / "two", found)
  save_denoiser(tmp_path / "other", jax.tree.map(lambda leaf: 2 * leaf, found))
  defended = make_defense("denoiser", folder=str(tmp_path / "one"))(network)
  moved = jnp.clip(images + 0.1 * np.sign(weights[:, 0] - weights[:, 1]).reshape(8, 8, 3), 0, 1)
  clean = network(images)
  assert abs(defended(moved) - clean).mean() < 0.5 * abs(network(moved) - clean).mean()
  same, other = (make_defense("denoiser", folder=str(tmp_path / name))(network) for name in ("two", "other"))
  assert fingerprint(same) == fingerprint(defended) != fingerprint(other)


def test_gray_images_have_denoisers_and_files_that_hold_none_are_named(tmp_path):
  network = Classifier.from_function(lambda x: x.mean((1, 2)) @ jnp.ones((1, 2)), 2)
  images = np.random.default_rng(0).uniform(size=(4, 7, 9, 1)).astype(np.float32)
  save_denoiser(tmp_path / "gray", SmallDenoiser(2).init(jax.random.key(0), images))
  defended = make_defense("denoiser", folder=str(tmp_path / "gray"))(network)
  assert defended(images).shape == (4, 2)
  with pytest.raises(InputError, match="images of 1 channels, not of 3"):
    defended(np.zeros((1, 8, 8, 3), np.float32))
  with pytest.raises(InputError, match="there is no denoiser in"):
    make_defense("denoiser", folder=str(tmp_path / "absent"))(network)
  np.savez(tmp_path / "weights.npz", other=np.zeros(3))
  with pytest.raises(CorruptFileError, match="no weights of a denoiser"):
    make_defense("denoiser", folder=str(tmp_path))(network)
