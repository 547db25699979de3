"""Run by test_devices in processes of its own: attacks the digits and prints the flags as JSON."""

from __future__ import annotations

import json
import sys

import jax
import numpy as np

from jaxrobust.core.compilation import count_compilations, enable_compilation_cache


def main() -> None:
  enable_compilation_cache()
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
