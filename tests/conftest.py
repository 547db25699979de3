"""One compilation cache for all tests and the processes they start."""

import gc
import os
import pathlib

import jax
import pytest

CACHE = pathlib.Path(
  os.environ.setdefault("JAXROBUST_CACHE", str(pathlib.Path(__file__).parents[1] / ".cache" / "jax"))
)

jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)

# A compiled program takes some twenty memory mappings; Linux gives a process 65,530, and at the end of them XLA dies.
MOST_MAPPINGS = 30_000
MAPPINGS = pathlib.Path("/proc/self/maps")


@pytest.fixture(autouse=True, scope="module")
def few_mappings():
  """Lets go of compiled programs when there are many; those needed again come back from the cache."""
  yield
  if MAPPINGS.exists() and MAPPINGS.read_bytes().count(b"\n") > MOST_MAPPINGS:
    jax.clear_caches()
    gc.collect()
