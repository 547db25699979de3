"""Run by test_devices in processes of its own: attacks the digits and prints the flags as JSON."""

from __future__ import annotations

import json
import sys

import jax

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
  flags = "".join("1" if flag else "0" for flag in result.success)
  print(json.dumps({"devices": jax.local_device_count(), "flags": flags, "compiled": count.compiled}))


if __name__ == "__main__":
  main()
