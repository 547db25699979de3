#!/usr/bin/env bash
# One training job on a Cloud TPU pod slice: installs the project on every host and starts the same command there.
#   bash launch/tpu_pod.sh [--dry_run] NAME ZONE train --config configs/robustart.py:resnet50 --out=gs://bucket/resnet50
# JAX finds the other hosts by itself. Preempted slices are made again by the caller; the same command continues.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dry=
if [ "${1:-}" = --dry_run ]; then dry=1; shift; fi
[ $# -ge 3 ] || { echo "usage: bash launch/tpu_pod.sh [--dry_run] NAME ZONE train --config …" >&2; exit 2; }
name=$1 zone=$2
shift 2
run() { if [ -n "$dry" ]; then echo "$*"; else "$@"; fi; }
all=(--zone="$zone" --worker=all)
run gcloud compute tpus tpu-vm scp --recurse "${all[@]}" "$root" "$name:~/jaxrobust"
run gcloud compute tpus tpu-vm ssh "$name" "${all[@]}" --command \
  "cd ~/jaxrobust && python3 -m venv .venv && .venv/bin/pip install -q -e '.[tpu]'"
run gcloud compute tpus tpu-vm ssh "$name" "${all[@]}" --command \
  "cd ~/jaxrobust && .venv/bin/jaxrobust $(printf '%q ' "$@")--distributed"
