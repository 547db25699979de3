#!/usr/bin/env bash
# All checks: style, types, doctests, tests. Arguments go to pytest: bash launch/test.sh -k engine
#   bash launch/test.sh smoke     style and a few fast tests of every room, in about a minute
#   bash launch/test.sh assault   hostile files, kills, signals and full disks, and a table of what came of them
# Whole trainings and the larger sizes of networks are left out where it is not CI (CI=1 runs them), the long comparisons
# with other implementations everywhere (JAXROBUST_SLOW=1 runs them).
source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"
prepare dev
cd "$root"
export JAXROBUST_CACHE=${JAXROBUST_CACHE:-$root/.cache/jax}
# Two test processes with a core each are faster than one with two, and keep off each other's threads.
export XLA_FLAGS="${XLA_FLAGS:-} --xla_cpu_multi_thread_eigen=false"
"$venv/bin/ruff" check jaxrobust configs tests
"$venv/bin/ruff" format --check jaxrobust configs tests
if [ "${1:-}" = smoke ]; then
  exec "$venv/bin/python" -m pytest -n "${JAXROBUST_TEST_PROCESSES:-2}" -m "smoke and not slow and not ci" \
    tests "${@:2}"
fi
if [ "${1:-}" = assault ]; then
  exec "$venv/bin/python" -m pytest -m assault tests/assault "${@:2}"
fi
"$venv/bin/mypy"
if ! command -v chromedriver >/dev/null || ! { command -v chromium || command -v google-chrome; } >/dev/null; then
  echo "skipped: the page in a browser, which takes Chromium and its driver (Debian: apt install chromium chromium-driver)"
fi
select=(-m "not slow and not ci and not assault")
[ -n "${CI:-}" ] && select=(-m "not slow and not assault")
[ -n "${JAXROBUST_SLOW:-}" ] && select=(-m "not assault")
exec "$venv/bin/python" -m pytest -n "${JAXROBUST_TEST_PROCESSES:-2}" --dist worksteal "${select[@]}" \
  --doctest-modules jaxrobust tests "$@"
