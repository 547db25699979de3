#!/usr/bin/env bash
#SBATCH --job-name=jaxrobust
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
# One training job on Slurm: one task per node (or per GPU), joined by JAX itself.
#   sbatch --nodes=4 --gpus-per-node=8 launch/slurm.sh train --config configs/robustart.py:resnet50 --out=runs/resnet50
#   sbatch --array=0-56 launch/slurm.sh train --config configs/studies.py:robustart-techniques --out=runs/robustart
# runs one task of the array for each run of a study.
#   bash launch/slurm.sh --dry_run train --config …   prints what would run
# Two minutes before its time is over the job gets SIGUSR1, saves a checkpoint (exit code 75) and is queued again.
# A cancelled job saves one too (within Slurm's KillWait, 30 s unless set) and stays cancelled.
set -euo pipefail
root=${JAXROBUST_ROOT:-${SLURM_SUBMIT_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}}
dry=
if [ "${1:-}" = --dry_run ]; then dry=1; shift; fi
[ $# -gt 0 ] || { echo "usage: sbatch launch/slurm.sh train --config FILE.py:ARG --out=FOLDER" >&2; exit 2; }
tasks=${SLURM_NTASKS:-1}
python=${JAXROBUST_PYTHON:-$root/.venv/bin/python}
command=(srun --kill-on-bad-exit=1 "$python" -m jaxrobust.cli.main "$@")
if [ "$tasks" -gt 1 ]; then command+=(--distributed "--processes=$tasks"); fi
if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then command+=("--index=$SLURM_ARRAY_TASK_ID"); fi
if [ -n "$dry" ]; then
  echo "nodes ${SLURM_JOB_NUM_NODES:-1}, tasks $tasks, in $root"
  printf '%q ' "${command[@]}"
  echo
  exit 0
fi
cd "$root"
[ -x "$python" ] || { echo "no environment at $python: run launch/local.sh once, or set JAXROBUST_PYTHON" >&2; exit 2; }
"${command[@]}" &
step=$!
# srun passes SIGUSR1 on to the tasks; at SIGTERM it would kill them.
late=
trap 'late=1; kill -USR1 "$step" 2>/dev/null || true' USR1
code=0
wait "$step" || code=$?
# A trapped signal ends the first wait; the second collects the step's own exit code.
if [ -n "$late" ] && [ "$code" -gt 128 ]; then code=0; wait "$step" || code=$?; fi
# Only for want of time: Slurm itself queues a preempted job again, and a cancelled one shall stay so. Any code but 0
# counts: the first task to leave may get the others killed.
if [ -n "$late" ] && [ "$code" -ne 0 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$code"
