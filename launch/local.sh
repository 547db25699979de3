#!/usr/bin/env bash
# The main job on this machine: trains a standard and a robust network on the embedded digits, attacks both
# and prints the verdict and the address of the page. Further arguments are options: bash launch/local.sh --eps=8/255
source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"
prepare ""
cd "$root"
exec "$venv/bin/jaxrobust" run --config configs/local.py "$@"
