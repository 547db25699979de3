#!/usr/bin/env bash
# One training job on a Cloud TPU pod slice: installs the project on every host and starts the same command there.
#   bash launch/tpu_pod.sh [--dry_run] NAME ZONE train --config configs/robustart.py:resnet50 --out=/mnt/shared/resnet50
# The folder of --out must be one that all hosts see, such as a Filestore share mounted on each of them.
# Hosts need Python 3.11 or newer. JAX finds the others by itself. Preempted slices are made again by the caller; the
# same command continues.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dry=
if [ "${1:-}" = --dry_run ]; then dry=1; shift; fi
[ $# -ge 3 ] || { echo "usage: bash launch/tpu_pod.sh [--dry_run] NAME ZONE train --config …" >&2; exit 2; }
name=$1 zone=$2
shift 2
run() { if [ -n "$dry" ]; then printf '%q ' "$@"; echo; else "$@"; fi; }
# The project's own files: no environment, no history, no results.
files() {
  if git -C "$root" ls-files --error-unmatch pyproject.toml >/dev/null 2>&1; then
    git -C "$root" ls-files -z --cached --others --exclude-standard
  else
    cd "$root"
    find . -name .git -prune -o -name .venv -prune -o -name .cache -prune -o -name __pycache__ -prune \
      -o -path ./runs -prune -o -path ./results -prune -o -type f -print0
  fi | while IFS= read -r -d '' file; do [ ! -e "$root/$file" ] || printf '%s\0' "$file"; done
}
all=(--zone="$zone" --worker=all)
archive=jaxrobust.tgz
if [ -n "$dry" ]; then
  echo "pack $(files | tr -dc '\0' | wc -c) files of $root"
else
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  archive=$folder/$archive
  files | tar -C "$root" --null -T - -czf "$archive"
fi
run gcloud compute tpus tpu-vm scp "${all[@]}" "$archive" "$name:jaxrobust.tgz"
run gcloud compute tpus tpu-vm ssh "$name" "${all[@]}" --command \
  "mkdir -p jaxrobust && tar -C jaxrobust -xmzf jaxrobust.tgz && source jaxrobust/launch/_environment.sh && prepare tpu"
run gcloud compute tpus tpu-vm ssh "$name" "${all[@]}" --command \
  "cd jaxrobust && .venv/bin/jaxrobust $(printf '%q ' "$@")--distributed"
