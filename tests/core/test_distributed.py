"""Joining JAX's distributed runtime: which devices a task of Slurm takes, and how soon a dead process is noticed."""

import os

import jax
import pytest
from jax._src import clusters

from jaxrobust.core.distributed import process_share
from jaxrobust.core.errors import InputError


@pytest.fixture
def joined(monkeypatch):
  """Stands in for JAX's runtime; holds the arguments it was started with."""
  for name in [name for name in os.environ if name.startswith(("SLURM_", "JAX_COORDINATOR", "JAX_LOCAL"))]:
    monkeypatch.delenv(name)
  arguments: dict[str, object] = {}
  monkeypatch.setattr(jax.distributed, "is_initialized", lambda: False)
  monkeypatch.setattr(jax.distributed, "initialize", lambda *_, **named: arguments.update(named))
  return arguments


def in_slurm(monkeypatch, tasks: str, gpus: str = "", node: int = 0, seen: int = 0):
  """A step with these tasks per node, on a node of which JAX sees so many GPUs."""
  monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", tasks)
  monkeypatch.setenv("SLURM_NODEID", str(node))
  if gpus:
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", gpus)
  if seen:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "local_device_count", lambda: seen)


def test_processes_that_go_their_own_ways_leave_the_runtime(joined, monkeypatch):
  left = []
  monkeypatch.setattr(jax.distributed, "shutdown", lambda: left.append(True))
  process_share(distributed=True)
  assert not left
  process_share(distributed=True, alone=True)
  assert left == [True]


def test_a_dead_process_is_noticed_within_a_minute(joined):
  process_share(distributed=True)
  assert joined["heartbeat_timeout_seconds"] <= 45
  assert joined["local_device_ids"] is None


@pytest.mark.parametrize(
  ("tasks", "node", "devices"),
  [("1", 0, []), ("1(x4)", 3, []), ("2(x3),1", 2, None), ("2(x3),1", 3, []), ("8(x2)", 1, None)],
)
def test_the_only_task_of_a_node_takes_all_its_devices(joined, monkeypatch, tasks, node, devices):
  in_slurm(monkeypatch, tasks, node=node)
  process_share(distributed=True)
  assert joined["local_device_ids"] == devices


def test_devices_named_by_the_user_are_left_alone(joined, monkeypatch):
  in_slurm(monkeypatch, "1(x4)", "8", seen=2)
  monkeypatch.setenv("JAX_LOCAL_DEVICE_IDS", "0,1")
  process_share(distributed=True)
  assert joined["local_device_ids"] is None


@pytest.mark.parametrize(("ids", "kept"), [(None, [0]), ([], [])])
def test_jax_takes_an_empty_list_for_all_devices(monkeypatch, ids, kept):
  words = {"JOB_ID": 7, "STEP_NODELIST": "node1", "NTASKS": 4, "PROCID": 2, "LOCALID": 0, "STEP_NUM_NODES": 4}
  for name, value in words.items():
    monkeypatch.setenv(f"SLURM_{name}", str(value))
  monkeypatch.setattr(clusters.cluster, "running_in_cloud_tpu_vm", False)
  found = clusters.ClusterEnv.auto_detect_unset_distributed_params(None, None, None, ids, "slurm", 1)
  assert found[1:] == (4, 2, kept)


@pytest.mark.parametrize(("tasks", "gpus", "seen"), [("1(x4)", "8", 8), ("8(x4)", "8", 1), ("2", "", 0)])
def test_all_gpus_of_a_node_in_use(joined, monkeypatch, tasks, gpus, seen):
  in_slurm(monkeypatch, tasks, gpus, seen=seen)
  process_share(distributed=True)


@pytest.mark.parametrize(("tasks", "gpus", "seen"), [("1(x4)", "8", 1), ("2(x4)", "8", 1), ("1(x4)", "8", 0)])
def test_gpus_left_idle_are_one_line(joined, monkeypatch, tasks, gpus, seen):
  in_slurm(monkeypatch, tasks, gpus, seen=seen)
  with pytest.raises(InputError, match=rf"Slurm set 8 GPUs of this node apart .* but JAX uses {seen} in each"):
    process_share(distributed=True)
