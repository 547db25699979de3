# Sourced by the scripts beside it: an environment of the project's own, made once and kept up to date.
# JAXROBUST_VENV names another place for it, PYTHON another interpreter.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${JAXROBUST_VENV:-$root/.venv}

find_python() {
  for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "error: jaxrobust needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2
  exit 2
}

# prepare EXTRA: installs the project with an optional extra, unless nothing changed since the last time.
prepare() {
  local extra=$1 stamp
  stamp="$venv/.jaxrobust${extra:+-$extra}"
  if [ ! -x "$venv/bin/python" ]; then
    local python
    python=$(find_python) || exit 2
    echo "making an environment in $venv"
    "$python" -m venv "$venv"
  fi
  if [ ! -e "$stamp" ] || [ "$root/pyproject.toml" -nt "$stamp" ]; then
    echo "installing jaxrobust (a few minutes the first time)"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -e "$root${extra:+[$extra]}"
    touch "$stamp"
  fi
}
