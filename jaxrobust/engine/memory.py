"""How many slots a run has: by the size of the images, the examples there are, and what the compiled program needs.

The compiler says how much memory a program takes; a program that would not fit gets fewer slots.
"""

from __future__ import annotations

import math
import os
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.mesh import replicated, row_sharding
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.program import Program, plain_shapes
from jaxrobust.engine.slots import advance

# Slots per device for images of 32 pixels, and the bytes of images at which they begin to become fewer.
SLOTS_ON_CPU, SLOTS = 128, 256
SMALL_IMAGES = 96 * 96 * 3 * 4
# The share of a device's memory that a program may take.
SHARE = 0.8
# Activations of a network take at least so many times its images; below this part of the memory nobody asks.
ACTIVATIONS = 64
ASK_ABOVE = 0.125


def default_slots(options: EngineOptions, image_shape: tuple[int, ...]) -> int:
  """Returns the slots over all devices for images of this shape: fewer, the larger they are.

  >>> options = EngineOptions.for_platform(mesh=None)
  >>> default_slots(options, (32, 32, 3)) >= default_slots(options, (224, 224, 3))
  True
  """
  devices = options.devices
  on_cpu = devices.devices.flat[0].platform == "cpu"
  bytes_each = 4 * math.prod(image_shape)
  fewer = max(1.0, bytes_each / SMALL_IMAGES)
  slots = int((SLOTS_ON_CPU if on_cpu else SLOTS * devices.size) / 2 ** math.ceil(math.log2(fewer)))
  return max(slots, 1) + -max(slots, 1) % devices.size


def group_size(options: EngineOptions, image_shape: tuple[int, ...], examples: int, parallel: int) -> tuple[int, int]:
  """Returns the slots of a group and the number of groups.

  Args:
    examples: there are never more slots than examples, unless the caller fixed them (`shrink=False`).
    parallel: evaluations that a step of one image holds in memory at once; they divide the slots.
  """
  devices = options.devices.size
  slots = default_slots(options, image_shape) if options.slots is None else options.slots
  slots = max(slots // parallel, 1)
  if options.shrink:
    slots = min(slots, max(examples, 1))
  groups = max(min(options.groups, slots // devices), 1)
  return max(slots // groups // devices, 1) * devices, groups


def device_memory(device: Any) -> int:
  """Returns the bytes that a device has; those of a CPU's devices are parts of the machine's."""
  stats = device.memory_stats() if device.platform != "cpu" else None
  if stats and "bytes_limit" in stats:
    return int(stats["bytes_limit"])
  return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // max(jax.local_device_count(), 1)


def abstract(tree: Any, sharding: NamedSharding) -> Any:
  """Returns shapes and types of arrays, laid over devices that need not be there."""
  return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf), leaf.dtype, sharding=sharding), tree)


def lower_advance(
  program: Program, classifier: Classifier, arrays: tuple, size: int, image_shape: tuple[int, ...]
) -> jax.stages.Lowered:
  """Returns the program that makes K steps of `size` slots, lowered for the platform of its mesh; nothing is run."""
  everywhere = replicated(program.mesh)
  slots = abstract(plain_shapes(program, arrays, size, image_shape), row_sharding(program.mesh))
  traced = advance.trace(program, abstract(classifier, everywhere), abstract(arrays, everywhere), slots, False)
  return traced.lower(lowering_platforms=(lowering_platform(program.mesh),))


def lowering_platform(mesh: Mesh) -> str:
  """Returns what a mesh's devices are called where programs are lowered for them."""
  platform = mesh.devices.flat[0].platform
  return "cuda" if platform == "gpu" else platform


def compiled_bytes(compiled: jax.stages.Compiled) -> int:
  """Returns the bytes per device that a compiled program takes: arguments, results that reuse none, temporaries."""
  needs: Any = compiled.memory_analysis()
  kept = needs.argument_size_in_bytes + needs.output_size_in_bytes - needs.alias_size_in_bytes
  return kept + needs.temp_size_in_bytes


def program_bytes(
  program: Program, classifier: Classifier, arrays: tuple, size: int, image_shape: tuple[int, ...]
) -> int:
  """Returns the bytes per device that a dispatch of `size` slots takes, by the compiler's own count."""
  return compiled_bytes(lower_advance(program, classifier, arrays, size, image_shape).compile())


def fitting_size(
  program: Program, classifier: Classifier, arrays: tuple, size: int, image_shape: tuple[int, ...]
) -> int:
  """Returns `size`, or fewer slots where the compiled program would not fit into the devices' memory."""
  devices = program.mesh.size
  limit = SHARE * device_memory(program.mesh.devices.flat[0])
  while size > devices:
    guess = 4 * math.prod(image_shape) * size // devices * program.rule.cost.parallel * ACTIVATIONS
    if guess < ASK_ABOVE * limit or program_bytes(program, classifier, arrays, size, image_shape) <= limit:
      break
    size = max(size // 2 // devices, 1) * devices
  return size
