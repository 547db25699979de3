#!/usr/bin/env bash
# The first hour of a new user: builds the wheel, installs it into an empty environment, and runs every command and snippet of
# README and guides in an empty folder (large ones in small form). FIRST_HOUR names another folder to work in.
#   bash launch/first_hour.sh README.md install.md    runs what these say alone
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=${FIRST_HOUR:-$root/build/first_hour}
python=${PYTHON:-python3}
rm -rf "$work/dist" && mkdir -p "$work/dist"
[ -x "$work/venv/bin/python" ] || "$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip wheel --quiet --no-deps --wheel-dir "$work/dist" "$root"
wheel=$(ls "$work"/dist/*.whl)
size=$(stat -c %s "$wheel")
echo "wheel: $size bytes"
[ "$size" -le 16000000 ] || { echo "error: the wheel is larger than 16 MB"; exit 1; }
cd "$work"
unset PYTHONPATH
"$work/venv/bin/python" -m pip install --quiet "$wheel[report]"
"$work/venv/bin/python" -m pip install --quiet --no-deps --force-reinstall "$wheel"
"$work/venv/bin/python" -m pip check
"$work/venv/bin/python" - <<'PYTHON'
import time
start = time.perf_counter()
import jaxrobust
print(f"import jaxrobust {jaxrobust.__version__}: {time.perf_counter() - start:.3f} s")
PYTHON
cp "$root/tests/first_hour.py" "$work/first_hour.py"
exec "$work/venv/bin/python" "$work/first_hour.py" "$root" "$@"
