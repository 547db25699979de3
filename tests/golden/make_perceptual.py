"""Writes perceptual.npz: features, distances and first steps of perceptual-advex 0.2.6 on small networks.

Run where torch 2.13, perceptual-advex 0.2.6, recoloradv 0.0.1, advex-uar, robustness and cox are (the last five without
their dependencies): python -m tests.golden.make_perceptual
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.golden import perceptual_networks as networks
from tests.golden.torch_perceptual import Convolutions, Injected, as_array, as_tensor, attacks, flatten

COUNT = 4
BOUNDS = {"lpips": 0.5, "flow": 0.05, "color": 0.06}


def main() -> None:
  chain: list[Any] = list(networks.CHAIN)
  model = Convolutions(chain, networks.layers(1), networks.head(2))
  other = Convolutions(chain, networks.layers(3), networks.head(4))
  images, noise = networks.pictures(COUNT), networks.noise(COUNT)
  x = as_tensor(images)
  labels = model(x).argmax(1)
  found: dict[str, np.ndarray] = {"labels": labels.numpy()}
  # Layer by layer in the order of channels last.
  units = [flatten((layer,)).reshape(layer.shape) for layer in other.features(x)]
  parts = [layer.permute(0, 2, 3, 1).reshape(COUNT, -1) for layer in units]
  found["features"] = torch.cat(parts, dim=1).detach().numpy()
  found["distances"] = (flatten(other.features(x)) - flatten(other.features(x.flip(0)))).norm(dim=1).detach().numpy()
  for kind, network in (("self", model), ("other", other)):
    for name, run in _attacks(model, network).items():
      rows = []
      for i in range(COUNT):
        with Injected(noise[i : i + 1]):
          rows.append(as_array(run(x[i : i + 1].clone(), labels[i : i + 1])))
      found[f"{name}-{kind}"] = np.concatenate(rows)
  for name, attack in (("stadv", attacks.StAdvAttack), ("recolor", attacks.ReColorAdvAttack)):
    for steps in (1, 2):
      rows = []
      for i in range(COUNT):
        run = attack(model, num_iterations=steps, random_init=True)
        with Started():
          rows.append(as_array(run(x[i : i + 1].clone(), labels[i : i + 1])))
      found[f"{name}-{steps}"] = np.concatenate(rows)
  far = as_tensor(networks.far(images))
  found["projected"] = np.concatenate([_projected(other, x[i : i + 1], far[i : i + 1]) for i in range(COUNT)])
  found["fetched"] = _stadv_from_identity(model, x, labels)
  np.savez_compressed(Path(__file__).with_name("perceptual.npz"), **found)  # type: ignore[arg-type]


def _projected(network: Any, x: torch.Tensor, far: torch.Tensor) -> np.ndarray:
  project = attacks.PROJECTIONS["newtons"](networks.BOUND, network)
  return as_array(project(x, far.clone(), flatten(network.features(x)).detach()))


def _stadv_from_identity(model: Any, x: torch.Tensor, labels: torch.Tensor) -> np.ndarray:
  rows = [attacks.StAdvAttack(model, num_iterations=1)(x[i : i + 1].clone(), labels[i : i + 1]) for i in range(COUNT)]
  return np.concatenate([as_array(row) for row in rows])


class Started:
  """Context in which attacks on flows and tables begin at a given offset from the identity."""

  def __enter__(self) -> None:
    self.plain = attacks.ap.ParameterizedXformAdv.random_init, attacks.pt.ReColorAdv.random_init

    def begin(perturbation: Any) -> None:
      xform = perturbation.xform
      identity = xform.identity_params
      identity = identity(xform.img_shape) if callable(identity) else identity
      bound = BOUNDS["flow" if identity.ndim == 4 else "color"]
      xform.xform_params.data.copy_(identity + torch.tensor(networks.offset(tuple(identity.shape[1:]), bound))[None])

    attacks.ap.ParameterizedXformAdv.random_init = begin
    attacks.pt.ReColorAdv.random_init = begin

  def __exit__(self, *_: Any) -> None:
    attacks.ap.ParameterizedXformAdv.random_init, attacks.pt.ReColorAdv.random_init = self.plain


def _attacks(model: Any, network: Any) -> dict[str, Any]:
  """Returns functions of (images, labels), one image at a time: examples share their fate in a batch there."""

  def ppgd(bound: float, steps: int, of: int) -> Any:
    def run(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
      attack = attacks.PerceptualPGDAttack(model, bound=bound, num_iterations=of, lpips_model=network)
      start = torch.zeros_like(x)
      start.normal_(0, 0.01)
      there, features = x + start, flatten(network.features(x)).detach()
      for _ in range(steps):
        there = attack.first_order_step(there, labels)
        there = attack.projection(x, there, features)
      return there

    return run

  def lpa(steps: int, projection: str, bound: float = 0.5, rounds: int = 1) -> Any:
    def run(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
      numbers = {"num_iterations": steps, "binary_steps": rounds, "projection": projection}
      return attacks.LagrangePerceptualAttack(model, bound=bound, lpips_model=network, **numbers)(x, labels)

    return run

  def fast(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return attacks.FastLagrangePerceptualAttack(model, bound=0.5, num_iterations=3, lpips_model=network)(x, labels)

  # A small bound is left by one step, so that its weight matters in the next.
  return {
    "ppgd-1": ppgd(0.5, 1, 40),
    "ppgd-3": ppgd(0.5, 3, 40),
    "lpa-1": lpa(1, "none", bound=0.02),
    "lpa-rounds": lpa(2, "none", bound=0.02, rounds=2),
    "fast-lpa-3": fast,
  }


if __name__ == "__main__":
  main()
