"""Compile-only devices: the chips of a slice, for compilers that need none of them.

The one file that uses `jax.experimental`: descriptions of slices live there. Compiling for a TPU takes `libtpu`, for a
GPU JAX's CUDA plugin; neither needs the hardware or its drivers.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import jax
from jax.experimental import topologies
from jax.sharding import Mesh

from jaxrobust.core.errors import InputError, first_line
from jaxrobust.core.mesh import make_mesh
from jaxrobust.pods.chips import Slice

# Autotuning would run kernels on a chip that is not there.
GPU_FLAGS = ("--xla_gpu_autotune_level=0", "--xla_gpu_enable_triton_gemm=false")
# An H100 as XLA's compiler wants to know it; NVIDIA's data sheet and CUDA's table of compute capability 9.0.
_H100 = {
  "threads_per_block_limit": 1024,
  "threads_per_warp": 32,
  "shared_memory_per_block": 48 * 1024,
  "shared_memory_per_core": 228 * 1024,
  "shared_memory_per_block_optin": 227 * 1024,
  "threads_per_core_limit": 2048,
  "core_count": 132,
  "fpus_per_core": 128,
  "block_dim_limit_x": 2**31 - 1,
  "block_dim_limit_y": 2**16 - 1,
  "block_dim_limit_z": 2**16 - 1,
  "memory_bandwidth": 3_352_320_000_000,
  "l2_cache_size": 50 * 1024**2,
  "clock_rate_ghz": 1.98,
  "device_memory_size": 84_929_347_584,
  "registers_per_core_limit": 2**16,
  "registers_per_block_limit": 2**16,
}
_GPU_TARGET = (
  "gpu_device_info {{ {info} cuda_compute_capability {{ major: 9 }} }} platform_name: 'CUDA'"
  " dnn_version_info {{ major: 9 minor: 7 }} runtime_version {{ major: 12 minor: 8 patch: 0 }}"
  " device_description_str: 'NVIDIA H100 80GB HBM3'"
)


def set_environment() -> None:
  """Says, before JAX looks for devices, that no chip is here: no cloud is asked for one, no kernel is tried on one."""
  os.environ.setdefault("JAX_PLATFORMS", "cpu")
  if not jax.config.jax_platforms:  # type: ignore[attr-defined]
    jax.config.update("jax_platforms", os.environ["JAX_PLATFORMS"])
  os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
  os.environ.setdefault("TPU_MIN_LOG_LEVEL", "3")
  # One process at a time holds the chips of a host; who only compiles holds none.
  os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
  flags = os.environ.get("XLA_FLAGS", "")
  missing = [flag for flag in GPU_FLAGS if flag.split("=")[0] not in flags]
  os.environ["XLA_FLAGS"] = " ".join([*([flags] if flags else []), *missing])


def missing_compiler(platform: str) -> str | None:
  """Returns the command that installs a platform's compiler; None where it is there."""
  packages = {"tpu": ("libtpu",), "cuda": ("jax_plugins.xla_cuda12", "jax_cuda12_plugin")}[platform]
  if all(_found(package) for package in packages):
    return None
  jaxes = version("jax")
  wanted = {"tpu": f"'jax[tpu]=={jaxes}'", "cuda": f"jax-cuda12-plugin=={jaxes} jax-cuda12-pjrt=={jaxes}"}[platform]
  return f"pip install {wanted}"


def _found(package: str) -> bool:
  try:
    return importlib.util.find_spec(package) is not None
  except ModuleNotFoundError:
    return False


def slice_devices(where: Slice) -> Sequence[Any]:
  """Returns the devices of a slice, which can be compiled for and nothing else.

  Raises:
    InputError: the compiler is not installed, or knows no such slice.
  """
  command = missing_compiler(where.chip.platform)
  if command:
    raise InputError(f"compiling for {where.text} needs a compiler that is not installed: {command}")
  try:
    if where.chip.platform == "tpu":
      found = topologies.get_topology_desc(platform="tpu", topology_name=where.text)
    else:
      info = " ".join(f"{name}: {value}" for name, value in _H100.items())
      text = _GPU_TARGET.format(info=info)
      found = topologies.get_topology_desc(platform="cuda", target_config=text, topology=f"1x1x{where.count}")
  except jax.errors.JaxRuntimeError as error:
    raise InputError(f"the compiler knows no slice {where.text!r}: {first_line(error)}") from None
  return found.devices


def slice_mesh(where: Slice) -> Mesh:
  """Returns the mesh over a slice's devices."""
  return make_mesh(slice_devices(where))
