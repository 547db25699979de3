"""The sbatch script under a real Slurm controller, started here on one machine.

Needs Debian's `slurm-wlm` (apt-get install slurm-wlm) and root, since slurmd starts jobs for other users.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "scontrol")
MISSING = [program for program in PROGRAMS if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is None]
CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
AuthInfo=cred_expire=5
CredType=cred/none
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

pytestmark = [
  pytest.mark.slow,
  pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)}: apt-get install slurm-wlm"),
  pytest.mark.skipif(os.geteuid() != 0, reason="slurmd needs root"),
  pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="two tasks need two cores"),
]


def free_port() -> int:
  with socket.socket() as listener:
    listener.bind(("127.0.0.1", 0))
    return listener.getsockname()[1]


@pytest.fixture
def slurm(tmp_path):
  """A controller and a node of this machine's own; yields the environment that reaches them."""
  folder = tmp_path / "slurm"
  for name in ("state", "spool"):
    (folder / name).mkdir(parents=True)
  settings = {"host": socket.gethostname(), "folder": folder, "cpus": os.cpu_count()}
  (folder / "slurm.conf").write_text(CONFIG.format(ports=(free_port(), free_port()), **settings))
  environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": f"{os.environ['PATH']}:/usr/sbin"}
  environment |= {"JAXROBUST_ROOT": str(ROOT), "JAXROBUST_PYTHON": sys.executable}
  servers = []
  for program in ("slurmctld", "slurmd"):
    with open(folder / f"{program}.log", "w") as log:
      servers.append(subprocess.Popen([program, "-D"], env=environment, stdout=log, stderr=log))
  try:
    wait_for(lambda: "idle" in run(environment, "sinfo", "--noheader"), 60, "an idle node")
    yield environment
  finally:
    for server in reversed(servers):
      server.send_signal(signal.SIGTERM)
    for server in servers:
      server.wait(30)


def run(environment, *words) -> str:
  return subprocess.run(words, env=environment, capture_output=True, text=True, check=False).stdout


def wait_for(condition, seconds, what):
  end = time.monotonic() + seconds
  while not condition():
    assert time.monotonic() < end, f"waited {seconds} s for {what}"
    time.sleep(1)


def submit(environment, log, *words, script=(), tasks=2) -> str:
  """The number of a new job; `script` are the words for the launcher, the others options of sbatch."""
  options = ["--parsable", f"--ntasks={tasks}", f"--ntasks-per-node={tasks}", "--cpus-per-task=1", f"--output={log}"]
  return run(environment, "sbatch", *options, *words, str(ROOT / "launch" / "slurm.sh"), *script).strip()


def shown(environment, job) -> dict[str, str]:
  parts = run(environment, "scontrol", "show", "job", job).split()
  return dict(part.split("=", 1) for part in parts if "=" in part)


def final(environment, job, log, seconds=400) -> dict[str, str]:
  """Returns what Slurm says of a job once it is over."""
  over = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
  wait_for(lambda: shown(environment, job).get("JobState") in over, seconds, f"job {job}, see {log}")
  return shown(environment, job)


def finished(environment, tmp_path, *words) -> str:
  """The output of a job of two tasks that must end well."""
  log = tmp_path / f"{words[0]}.log"
  state = final(environment, submit(environment, log, script=words), log)
  assert state["JobState"] == "COMPLETED" and state["ExitCode"] == "0:0", log.read_text()
  return log.read_text()


def test_two_tasks_train_and_evaluate(slurm, tmp_path):
  model, results = tmp_path / "model", tmp_path / "results"
  config = f"{ROOT}/configs/cifar10.py:fast-at,runlocal"
  output = finished(slurm, tmp_path, "train", "--config", config, "--epochs=0.5", f"--out={model}")
  assert "2 processes" in output
  assert json.loads((model / "classifier.json").read_text())["arch"] == "cnn-tiny"
  words = [f"--model={model}", "--name=tiny", "--suite=basic", "--n=100", f"--out={results}"]
  finished(slurm, tmp_path, "evaluate", *words)
  cells = [path for path in results.rglob("*.json") if ".n100.seed0.json" in path.name and "shard" not in path.name]
  assert len(cells) == 3
  assert all(json.loads(cell.read_text())["summary"]["n"] == 100 for cell in cells)


# In place of a training: saves and ends with 75 when asked to, and is done at once where it finds what it saved.
STAND_IN = """#!{python}
import os, pathlib, signal, sys, time
folder, task = pathlib.Path({folder!r}), os.environ["SLURM_PROCID"]
if (folder / f"saved{{task}}").exists():
  sys.exit(0)
def save(number, _):
  (folder / f"saved{{task}}").write_text(str(number))
  while len(list(folder.glob("saved*"))) < int(os.environ["SLURM_NTASKS"]):
    time.sleep(0.1)
  os._exit(75)
for number in (signal.SIGTERM, signal.SIGUSR1):
  signal.signal(number, save)
(folder / f"started{{task}}").touch()
time.sleep(600)
"""


@pytest.fixture
def stand_in(slurm, tmp_path):
  path = tmp_path / "stand_in"
  path.write_text(STAND_IN.format(python=sys.executable, folder=str(tmp_path)))
  path.chmod(0o755)
  return {**slurm, "JAXROBUST_PYTHON": str(path)}


def begin(environment, tmp_path) -> str:
  """A job that gets its signal within a minute of its start, with both tasks at work."""
  job = submit(environment, tmp_path / "job.log", "--time=3", script=["train"])
  wait_for(lambda: len(list(tmp_path.glob("started*"))) == 2, 60, "two tasks")
  return job


def test_at_the_time_limit_all_tasks_save_and_the_job_is_queued_again(stand_in, tmp_path):
  job = begin(stand_in, tmp_path)
  state = final(stand_in, job, tmp_path / "job.log")
  assert [(tmp_path / f"saved{task}").read_text() for task in (0, 1)] == [str(int(signal.SIGUSR1))] * 2
  assert (state["JobState"], state["Restarts"]) == ("COMPLETED", "1"), (tmp_path / "job.log").read_text()


def test_a_cancelled_job_saves_and_is_not_queued_again(stand_in, tmp_path):
  job = begin(stand_in, tmp_path)
  run(stand_in, "scancel", job)
  state = final(stand_in, job, tmp_path / "job.log", 60)
  assert [(tmp_path / f"saved{task}").read_text() for task in (0, 1)] == [str(int(signal.SIGTERM))] * 2
  time.sleep(3)  # A job queued again would be pending by now.
  assert (shown(stand_in, job)["JobState"], state["Restarts"]) == ("CANCELLED", "0")
