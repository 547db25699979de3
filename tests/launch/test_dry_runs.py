"""Launchers say what they would do, word for word, and refuse bad usage in one line; a pod gets the project alone."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.smoke

ROOT = Path(__file__).parents[2]
ODD = """--name=it's "odd" \\ $HOME"""
TRAIN = ("train", "--config", "configs/cifar10.py:pgd-at", ODD)
TPU = ("tpu", "registry/jaxrobust:1", "4", "4x4", "tpu-v5-lite-podslice")
GPU = ("gpu", "registry/jaxrobust:1", "2", "8", "nvidia-h100-80gb")


def launch(script, *words, root=ROOT, **environment) -> subprocess.CompletedProcess:
  clean = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "JAXROBUST_"))}
  command = ["bash", str(root / "launch" / script), *words]
  return subprocess.run(command, env={**clean, **environment}, capture_output=True, text=True, check=False)


def dry(script, *words, **environment) -> str:
  result = launch(script, "--dry_run", *words, **environment)
  assert result.returncode == 0, result.stderr
  return result.stdout


@pytest.mark.parametrize(
  ("script", "words", "expected"),
  [
    ("local.sh", TRAIN[1:], ["run", "--config", "configs/local.py", *TRAIN[1:]]),
    ("slurm.sh", TRAIN, ["-m", "jaxrobust.cli.main", *TRAIN]),
    ("slurm.sh", TRAIN, ["-m", "jaxrobust.cli.main", *TRAIN, "--distributed", "--processes=4", "--index=7"]),
  ],
)
def test_a_dry_run_prints_the_command_word_for_word(script, words, expected):
  environment = {"SLURM_NTASKS": "4", "SLURM_ARRAY_TASK_ID": "7"} if expected[-1] == "--index=7" else {}
  lines = dry(script, *words, **environment).splitlines()
  assert shlex.split(lines[-1])[-len(expected) :] == expected


def test_a_dry_run_on_a_tpu_pod_prints_what_every_host_runs():
  lines = dry("tpu_pod.sh", "pod", "us-east5-a", *TRAIN).splitlines()
  assert lines[0].startswith("pack ") and [shlex.split(line)[4] for line in lines[1:]] == ["scp", "ssh", "ssh"]
  *options, remote = shlex.split(lines[-1])
  assert {"pod", "--zone=us-east5-a", "--worker=all", "--command"} <= set(options)
  words = shlex.split(remote)
  assert words[words.index("train") :] == [*TRAIN, "--distributed"]


@pytest.mark.parametrize(
  ("words", "limits"), [(TPU, {"google.com/tpu": 4}), (GPU, {"nvidia.com/gpu": 8})], ids=["tpu", "gpu"]
)
def test_the_manifest_of_gke(words, limits):
  yaml = pytest.importorskip("yaml")
  spec = yaml.safe_load(dry("gke.sh", *words, *TRAIN, JAXROBUST_JOB="job", JAXROBUST_CLAIM="disk"))["spec"]
  (workers,) = spec["replicatedJobs"]
  job = workers["template"]["spec"]
  hosts = int(words[2])
  assert (workers["replicas"], job["parallelism"], job["completions"], job["backoffLimit"]) == (1, hosts, hosts, 0)
  pod = job["template"]["spec"]
  (container,) = pod["containers"]
  assert container["command"] == ["jaxrobust", *TRAIN, "--distributed", f"--processes={hosts}"]
  assert container["image"] == words[1] and container["resources"]["limits"] == limits
  assert words[4] in pod["nodeSelector"].values()
  environment = {entry["name"]: entry.get("value") for entry in container["env"]}
  assert environment["JAX_COORDINATOR_ADDRESS"] == "job-workers-0-0.job:8476"
  assert environment["JAX_NUM_PROCESSES"] == words[2]
  assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == "disk"


def test_bad_input_ends_a_job_of_gke_and_being_stopped_does_not():
  yaml = pytest.importorskip("yaml")
  spec = yaml.safe_load(dry("gke.sh", *TPU, *TRAIN))["spec"]
  job = spec["replicatedJobs"][0]["template"]["spec"]
  (rule,) = job["podFailurePolicy"]["rules"]
  codes = rule["onExitCodes"]
  assert (rule["action"], codes["operator"], codes["containerName"]) == ("FailJob", "In", "train")
  assert set(codes["values"]) == {2, 3, 4, 5} and job["template"]["spec"]["restartPolicy"] == "Never"
  (answer,) = spec["failurePolicy"]["rules"]
  assert (answer["action"], answer["onJobFailureReasons"]) == ("FailJobSet", ["PodFailurePolicy"])


def test_hosts_with_another_number_of_chips():
  words = ("tpu", "image", "1", "2x4", "tpu-v5-lite-podslice", *TRAIN)
  assert "google.com/tpu: 8" in dry("gke.sh", *words, JAXROBUST_CHIPS="8")


@pytest.mark.parametrize(
  ("script", "words", "what"),
  [
    ("slurm.sh", (), "usage"),
    ("tpu_pod.sh", ("pod", "zone"), "usage"),
    ("gke.sh", TPU, "usage"),
    ("gke.sh", ("cpu", *TPU[1:], *TRAIN), "not cpu"),
    ("gke.sh", ("tpu", "image", "abc", *TPU[3:], *TRAIN), "not abc"),
    ("gke.sh", ("tpu", "image", "4", "16", TPU[4], *TRAIN), "not 16"),
    ("gke.sh", ("tpu", "image", "3", "4x4", TPU[4], *TRAIN), "a 4x4 slice has 16 chips, but 3 hosts"),
    ("gke.sh", ("gpu", "image", "2", "8x", GPU[4], *TRAIN), "not 8x"),
  ],
)
def test_bad_usage_is_one_line(script, words, what):
  result = launch(script, "--dry_run", *words)
  assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
  assert what in result.stderr


# A host of the pod is a folder, and its Python writes down how it is called.
GCLOUD = """#!/usr/bin/env bash
cd "$HOST" || exit 1
case $4 in
  scp) cp "${@: -2:1}" "${@: -1}" && mv "${@: -1}" jaxrobust.tgz ;;
  ssh) bash -c "${@: -1}" ;;
esac
"""
PYTHON = """#!/usr/bin/env bash
[ "${2:-}" != venv ] || { mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp "$0" "$3/bin/jaxrobust"; }
printf '%s\\n' "$(basename "$0")" "$@" >>"$HOST/calls"
"""


@pytest.fixture
def project(tmp_path):
  """A small checkout with things in it that no host needs."""
  root = tmp_path / "project"
  shutil.copytree(ROOT / "launch", root / "launch")
  for name in ("pyproject.toml", "gone.txt", "a file.py", ".venv/big", "runs/big", ".cache/big"):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text("")
  (root / ".gitignore").write_text("/runs/\n.venv/\n.cache/\n")
  return root


@pytest.mark.parametrize("checkout", [True, False])
def test_a_second_start_on_a_tpu_pod_brings_the_files_up_to_date(project, tmp_path, checkout):
  if checkout:
    subprocess.run("git init -q && git add .", shell=True, cwd=project, check=True)
  (project / "gone.txt").unlink()
  host, programs = tmp_path / "host", tmp_path / "bin"
  for folder, name, text in ((host, "calls", ""), (programs, "gcloud", GCLOUD), (programs, "python", PYTHON)):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
  environment = {"HOST": str(host), "PATH": f"{programs}:{os.environ['PATH']}", "PYTHON": str(programs / "python")}
  for text in ("first", "second"):
    (project / "a file.py").write_text(text)
    result = launch("tpu_pod.sh", "pod", "zone", *TRAIN, root=project, **environment)
    assert result.returncode == 0, result.stderr
    assert (host / "jaxrobust" / "a file.py").read_text() == text
  assert {path.name for path in (host / "jaxrobust").iterdir()} <= {
    *("launch", "pyproject.toml", "a file.py", ".gitignore"),
    ".venv",  # The host's own.
  }
  assert not (host / "jaxrobust" / ".venv" / "big").exists()
  assert (host / "calls").read_text().endswith("\n".join(["jaxrobust", *TRAIN, "--distributed", ""]))
