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


def submit(environment, tmp_path, *words) -> str:
  """The output of a job of two tasks that must end well."""
  log = tmp_path / f"{words[0]}.log"
  options = ["--parsable", "--ntasks=2", "--ntasks-per-node=2", "--cpus-per-task=1", f"--output={log}"]
  job = run(environment, "sbatch", *options, str(ROOT / "launch" / "slurm.sh"), *words).strip()
  state = lambda: dict(
    part.split("=", 1) for part in run(environment, "scontrol", "show", "job", job).split() if "=" in part
  )
  over = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
  wait_for(lambda: state().get("JobState") in over, 400, f"job {job} ({log.read_text() if log.exists() else ''})")
  assert state()["JobState"] == "COMPLETED" and state()["ExitCode"] == "0:0", log.read_text()
  return log.read_text()


def test_two_tasks_train_and_evaluate(slurm, tmp_path):
  model, results = tmp_path / "model", tmp_path / "results"
  config = f"{ROOT}/configs/cifar10.py:fast-at,runlocal"
  output = submit(slurm, tmp_path, "train", "--config", config, "--epochs=0.5", f"--out={model}")
  assert "2 processes" in output
  assert json.loads((model / "classifier.json").read_text())["arch"] == "cnn-tiny"
  words = [f"--model={model}", "--name=tiny", "--suite=basic", "--n=100", f"--out={results}"]
  submit(slurm, tmp_path, "evaluate", *words)
  cells = [path for path in results.rglob("*.json") if ".n100.seed0.json" in path.name and "shard" not in path.name]
  assert len(cells) == 3
  assert all(json.loads(cell.read_text())["summary"]["n"] == 100 for cell in cells)
