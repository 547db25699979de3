#!/usr/bin/env bash
# All checks: style, types, doctests, tests. Further arguments go to pytest: bash launch/test.sh -k engine
source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"
prepare dev
cd "$root"
export JAXROBUST_CACHE=${JAXROBUST_CACHE:-$root/.cache/jax}
# Two test processes with a core each are faster than one with two, and keep off each other's threads.
export XLA_FLAGS="${XLA_FLAGS:-} --xla_cpu_multi_thread_eigen=false"
"$venv/bin/ruff" check jaxrobust configs tests
"$venv/bin/ruff" format --check jaxrobust configs tests
"$venv/bin/mypy"
exec "$venv/bin/python" -m pytest -n "${JAXROBUST_TEST_PROCESSES:-2}" --dist loadfile --doctest-modules jaxrobust tests "$@"
