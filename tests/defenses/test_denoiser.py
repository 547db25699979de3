"""A denoiser learns to undo what an attack did to a classifier."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.core.classifier import Classifier
from jaxrobust.defenses.denoiser import fit_denoiser, save_denoiser
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
  defended = make_defense("denoiser", folder=str(tmp_path / "one"), width=4)(network)
  moved = jnp.clip(images + 0.1 * np.sign(weights[:, 0] - weights[:, 1]).reshape(8, 8, 3), 0, 1)
  clean = network(images)
  assert abs(defended(moved) - clean).mean() < 0.5 * abs(network(moved) - clean).mean()
  same, other = (make_defense("denoiser", folder=str(tmp_path / name), width=4)(network) for name in ("two", "other"))
  assert fingerprint(same) == fingerprint(defended) != fingerprint(other)
