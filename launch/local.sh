#!/usr/bin/env bash
# The main job on this machine: trains a standard and a robust network on the embedded digits, attacks both
# and prints the verdict and the address of the page. Further arguments are options: bash launch/local.sh --eps=8/255
#   bash launch/local.sh --dry_run [OPTIONS]   prints what would run
source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"
dry=
if [ "${1:-}" = --dry_run ]; then dry=1; shift; fi
command=("$venv/bin/jaxrobust" run --config configs/local.py "$@")
if [ -n "$dry" ]; then
  echo "environment $venv, in $root"
  printf '%q ' "${command[@]}"
  echo
  exit 0
fi
prepare ""
cd "$root"
exec "${command[@]}"
