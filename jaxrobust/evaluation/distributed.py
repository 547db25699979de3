"""Several processes on one evaluation: each takes its share of the examples on its own devices."""

from __future__ import annotations

import os
import sys

import jax

from jaxrobust.core.errors import InputError, first_line


def process_share(distributed: bool, expected: int = 0) -> tuple[int, int]:
  """(this process, number of processes); joins JAX's distributed runtime when asked to.

  Slurm, Kubernetes and Cloud TPU are detected by JAX. Elsewhere set JAX_COORDINATOR_ADDRESS,
  JAX_NUM_PROCESSES and JAX_PROCESS_ID. Another number of processes than expected (0 for any) is an error.
  """
  if distributed:
    _join()
  process, processes = (jax.process_index(), jax.process_count()) if distributed else (0, 1)
  if expected and expected != processes:
    raise InputError(f"{expected} processes were asked for, but {processes} take part")
  return process, processes


def _join() -> None:
  if not jax.distributed.is_initialized():
    count, index = os.environ.get("JAX_NUM_PROCESSES"), os.environ.get("JAX_PROCESS_ID")
    try:
      jax.distributed.initialize(
        os.environ.get("JAX_COORDINATOR_ADDRESS"),
        int(count) if count else None,
        int(index) if index else None,
      )
    except (ValueError, RuntimeError) as error:
      reason = first_line(error)
      raise InputError(f"cannot join the distributed runtime: {reason}") from error
  print(
    f"process {jax.process_index()} of {jax.process_count()}: {jax.local_device_count()} local devices",
    file=sys.stderr,
  )
