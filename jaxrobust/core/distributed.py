"""Several processes on one evaluation: each takes its share of the examples on its own devices."""

from __future__ import annotations

import os
import sys

import jax

from jaxrobust.core.errors import InputError, first_line

# When one process dies the others end within a minute; JAX would wait for 100 s.
HEARTBEAT_SECONDS = 30
# JAX's variable for those who choose the devices of a process themselves.
CHOSEN = "JAX_LOCAL_DEVICE_IDS"


def process_share(distributed: bool, expected: int = 0, alone: bool = False) -> tuple[int, int]:
  """Returns (this process, number of processes); joins JAX's distributed runtime when asked to.

  Slurm, Kubernetes and Cloud TPU are detected by JAX. Elsewhere set JAX_COORDINATOR_ADDRESS,
  JAX_NUM_PROCESSES and JAX_PROCESS_ID. Another number of processes than expected (0 for any) is an error.

  Args:
    alone: each process goes its own way from here, and leaves the runtime once all have met: JAX would abort those
      that are left when one of them ends for whatever reason.
  """
  if distributed:
    _join()
  process, processes = (jax.process_index(), jax.process_count()) if distributed else (0, 1)
  if distributed:
    if alone:
      jax.distributed.shutdown()
    count = jax.local_device_count()
    print(f"process {process} of {processes}: {count} local devices", file=sys.stderr, flush=True)
    _check_gpus()
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
        local_device_ids=_devices(),
        heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
      )
    except (ValueError, RuntimeError) as error:
      reason = first_line(error)
      raise InputError(f"cannot join the distributed runtime: {reason}") from error


def _devices() -> list[int] | None:
  """Returns all devices ([]) for the only task of a Slurm node, to which JAX would give one; else None, its choice."""
  return [] if _tasks_on_node() == 1 and CHOSEN not in os.environ else None


def _check_gpus() -> None:
  """Checks that all GPUs that Slurm set apart on this node are in use, or says in one line how many are not."""
  gpus, tasks = os.environ.get("SLURM_GPUS_ON_NODE", ""), _tasks_on_node()
  seen = jax.local_device_count() if jax.default_backend() != "cpu" else 0
  if tasks and gpus.isdigit() and CHOSEN not in os.environ and tasks * seen != int(gpus):
    raise InputError(
      f"Slurm set {gpus} GPUs of this node apart for {tasks} tasks, but JAX uses {seen} in each: start one task per "
      "node or one per GPU, and install jax[cuda12]"
    )


def _tasks_on_node() -> int:
  """Returns Slurm's tasks on this node, 0 elsewhere. "2(x3),1" says: two on each of three nodes, one on the fourth."""
  tasks: list[int] = []
  for part in filter(None, os.environ.get("SLURM_STEP_TASKS_PER_NODE", "").split(",")):
    count, _, nodes = part.rstrip(")").partition("(x")
    tasks += [int(count)] * int(nodes or 1)
  return tasks[int(os.environ.get("SLURM_NODEID", "0"))] if tasks else 0
