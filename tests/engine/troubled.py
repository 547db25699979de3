"""Run by test_invariance in a process with four devices: whole cells of some attacks for every layout of the machine.

The network has NaN gradients at some points, and zero gradients at others. Prints as JSON which layouts differ from the
first one, and how.
"""

from __future__ import annotations

import inspect
import json
import sys
import tempfile
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks.audit import audit_of
from jaxrobust.attacks.decision import inner
from jaxrobust.attacks.registry import ATTACKS, make_attack
from jaxrobust.attacks.schedule import Cascade, Stage
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.compilation import enable_compilation_cache
from jaxrobust.core.mesh import make_mesh
from jaxrobust.data.source import ArraySource
from jaxrobust.engine.options import EngineOptions
from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.suites import entry_of

CLASSES, COUNT = 5, 24
SIDE = 5
# Attacks that divide an image into blocks or lines.
LARGE = {"elastic": 16, "glitch": 16, "jpeg": 16, "pixel": 16, "snow": 16, "wood": 16}
EPS = {"linf": 0.02, "l2": 0.15, "l1": 0.6, "flow": 0.1, "color": 0.03}
# Attacks as short as they may be: every program is compiled for every layout.
SHORT = {
  "cw": {"binary_search_steps": 3, "steps": 8},
  "ead": {"binary_search_steps": 3, "steps": 8},
  "square": {"num_steps": 40},
  "autoattack": {"num_steps": 5, "queries": 20},
  "autoattack-plus": {"num_steps": 3, "queries": 10},
  "autoattack-rand": {"num_steps": 5},
  # The authors' differences over a thousandth, its default, make a thousand times as much of rounding.
  "ppgd": {"num_steps": 6, "cg_steps": 2, "exact": True},
}
FEW = {"num_steps": 6, "queries": 40, "pairs": 3, "samples": 6, "coordinates": 2}
FEW |= {"probes": 6, "directions": 3, "tolerance": 0.01}
# (slots, devices, K, groups beside the one that the host sees to, processes); the first is the baseline.
LAYOUTS = (
  (16, 1, 1, 0, 1),
  (1, 1, 1, 0, 1),
  (7, 1, 1, 0, 1),
  (64, 1, 1, 0, 1),
  (16, 2, 1, 0, 1),
  (16, 4, 1, 0, 1),
  (16, 1, 4, 0, 1),
  (16, 1, 32, 0, 1),
  (16, 1, 1, 1, 1),
  (16, 1, 1, 0, 2),
  (12, 2, 4, 1, 2),
  (64, 4, 32, 1, 2),
)


@jax.custom_vjp
def poisoned(images):
  """The identity; its gradient is NaN where the first pixel is bright, and zero where the second one is dark."""
  return images


def _fwd(images):
  return images, (images[:, :1, :1, :1] > 0.62, images[:, :1, 1:2, :1] < 0.36)


def _bwd(where, cotangent):
  bad, flat = where
  return (jnp.where(bad, jnp.nan, jnp.where(flat, 0.0, cotangent)),)


poisoned.defvjp(_fwd, _bwd)


@jax.custom_vjp
def product(values, weights):
  """The product of matrices, summed in an order that does not depend on the batch, forward and backward.

  XLA's own sums differ in their last bit between batches, and a search along the boundary makes much of little: what
  would be compared is the network's rounding, not the engine.
  """
  return jax.vmap(jax.vmap(inner, (None, 1)), (0, None))(values, weights)


product.defvjp(
  lambda values, weights: (product(values, weights), weights),
  lambda weights, cotangent: (product(cotangent, weights.T), None),
)


def features(weights, images):
  pixels = poisoned(images)
  return pixels, jnp.tanh(product(pixels.reshape(len(images), -1), weights["first"]))[:, None, None]


def network(weights, images):
  return product(features(weights, images)[1][:, 0, 0], weights["second"])


def make_classifier(side: int) -> Classifier:
  rng = np.random.default_rng(11)
  weights = {
    "first": jnp.asarray(rng.normal(size=(3 * side * side, 12)) * 2.5 / side, jnp.float32),
    "second": jnp.asarray(rng.normal(size=(12, CLASSES)), jnp.float32),
  }
  return Classifier.from_function(network, CLASSES, variables=weights, name="troubled", features=features)


def cell_of(classifier, data, attack, layout):
  slots, devices, steps, ahead, processes = layout
  norm = attack.threat.name if hasattr(attack, "threat") else attack.norm
  entry = entry_of(attack, None if attack.minimal else EPS.get(norm, 0.2))
  engine = EngineOptions.for_platform(
    slots, steps_per_dispatch=steps, lookahead=ahead, mesh=make_mesh(jax.devices()[:devices]), shrink=slots == 7
  )
  options = RunOptions(engine, quiet=True, processes=processes)
  with tempfile.TemporaryDirectory() as out:
    for process in range(processes):
      report = evaluate(classifier, data, [entry], name="m", out=out, options=replace(options, process=process))
  return report.results[0]


def difference(one, other) -> str:
  """What differs between two results; flags and counts exactly, distances and confidences to 1e-6, margins to 1e-5."""
  if one.examples.keys() != other.examples.keys():
    return f"arrays {sorted(one.examples.keys() ^ other.examples.keys())}"
  for name, array in one.examples.items():
    close = array.dtype.kind == "f"
    # The margin is a difference of logits of several units.
    atol = 1e-5 if name == "margin" else 1e-6
    same = np.allclose(array, other.examples[name], rtol=1e-6, atol=atol) if close else (array == other.examples[name])
    if not np.all(same):
      return f"{name}: {array.tolist()} {other.examples[name].tolist()}"
  findings = [[(item["kind"], item["examples"]) for item in result.findings] for result in (one, other)]
  return "" if findings[0] == findings[1] else f"findings {findings}"


def make_problem(side: int) -> tuple[Classifier, ArraySource]:
  classifier = make_classifier(side)
  images = np.random.default_rng(3).uniform(0.2, 0.8, (COUNT, side, side, 3)).astype(np.float32)
  labels = np.asarray(classifier(jnp.asarray(images))).argmax(1)
  labels[::9] = (labels[::9] + 1) % CLASSES
  return classifier, ArraySource("troubled", images, labels, CLASSES)


def short(name: str):
  """An attack as short as it may be; one that needs a target in a cascade that chooses it."""
  if name == "autoattack-audit":
    return audit_of(short("mm5"), short("autoattack"))
  known = inspect.signature(ATTACKS[name]).parameters
  attack = make_attack(name, **SHORT.get(name, {key: value for key, value in FEW.items() if key in known}))
  return Cascade((Stage(attack, rank=1),), name) if name in ("apgd-t", "mm", "fab-t") else attack


def main() -> None:
  enable_compilation_cache()
  found = {}
  for name in sys.argv[1:]:
    classifier, data = make_problem(LARGE.get(name, SIDE))
    attack = short(name)
    cells = [cell_of(classifier, data, attack, layout) for layout in LAYOUTS]
    examples = cells[0].examples
    found[name] = {
      "differ": {
        str(layout): text for layout, cell in zip(LAYOUTS, cells, strict=True) if (text := difference(cells[0], cell))
      },
      "nan": int(examples["nan"].sum()),
      "flat": int((examples["flat"] > 0).sum()),
      "robust": int(examples["robust"].sum()),
    }
  print(json.dumps({"devices": jax.device_count(), "known": sorted(ATTACKS), "found": found}))


if __name__ == "__main__":
  main()
