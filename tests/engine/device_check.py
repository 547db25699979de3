"""Run by test_devices in processes of its own: attacks the digits and prints the flags as JSON."""

from __future__ import annotations

import json
import sys

import jax
import numpy as np

from jaxrobust.core.compilation import count_compilations, enable_compilation_cache


def kinds() -> None:
  """Prints what an attack of each kind finds."""
  import jaxrobust as jr
  from jaxrobust import testing
  from jaxrobust.testing.fixtures import starting_points
  from tests.guide_attacks import guide_attacks

  guide, classifier = guide_attacks(), testing.fixture()
  images, labels = testing.examples(classifier, 20)
  cases = {
    "witness": (guide.Recolor(), {"eps": 0.3}),
    "decision": (guide.Bisect(), {"starts": starting_points(), "budgets": (1.0, 2.0)}),
    "own pool": (guide.Bisect(), {}),
    "score": (guide.NES(), {"eps": 0.06}),
    "features": (guide.NearestFeatures(), {"budgets": (0.5, 1.0)}),
  }
  found = {}
  for name, (attack, more) in cases.items():
    result = jr.attack_images(attack, classifier, images, labels, batch_size=16, **more)
    columns = ("success", "queries", "nan", "distance", "reached_step", "reached_query")
    # JSON has no infinity.
    found[name] = {column: np.nan_to_num(result._asdict()[column], posinf=-1.0).tolist() for column in columns}
  print(json.dumps({"devices": jax.local_device_count(), "kinds": found}))


def main() -> None:
  enable_compilation_cache()
  if "kinds" in sys.argv:
    return kinds()
  from jaxrobust import testing
  from jaxrobust.attacks.registry import make_attack
  from jaxrobust.engine.api import attack_images
  from jaxrobust.engine.options import EngineOptions

  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 50)
  attack = make_attack("pgd", num_steps=6)
  with count_compilations() as count:
    result = attack_images(attack, classifier, images, labels, eps=0.015, options=EngineOptions.for_platform(16))
    if "check" in sys.argv:
      testing.check_attack(attack)
  # Eight wrong labels make the waves of 16 slots end with eight images, which must not land on few devices.
  wrong = np.where(np.arange(48) < 8, 1, 0)
  stats = attack_images(attack, classifier, images[:48], (labels[:48] + wrong) % 5, eps=1e-6, batch_size=16).stats
  flags = "".join("1" if flag else "0" for flag in result.success)
  useful = stats.useful_steps / stats.slot_steps
  used = EngineOptions.for_platform(6).devices.size
  print(
    json.dumps(
      {"devices": jax.local_device_count(), "flags": flags, "compiled": count.compiled, "useful": useful, "used": used}
    )
  )


if __name__ == "__main__":
  main()
