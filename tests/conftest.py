"""One compilation cache for all tests and the processes they start."""

import gc
import os
import pathlib

import jax

CACHE = pathlib.Path(
  os.environ.setdefault("JAXROBUST_CACHE", str(pathlib.Path(__file__).parents[1] / ".cache" / "jax"))
)

jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)

# A compiled program takes some twenty memory mappings; Linux gives a process 65,530, and at the end of them XLA dies.
# A test of a whole attack makes up to 900, and the tests of one file more than there are.
MOST_MAPPINGS = 30_000
MAPPINGS = pathlib.Path("/proc/self/maps")
TESTS_BETWEEN = 5  # Counting that many mappings takes some 10 ms.
_since = 0


def pytest_runtest_logfinish(nodeid: str, location: tuple) -> None:
  """Lets go of compiled programs when there are many; those needed again come back from the cache."""
  global _since
  _since += 1
  if _since < TESTS_BETWEEN or not MAPPINGS.exists():
    return
  _since = 0
  if MAPPINGS.read_bytes().count(b"\n") > MOST_MAPPINGS:
    jax.clear_caches()
    gc.collect()
