"""One compilation cache for all tests and the processes they start."""

import os
import pathlib

import jax

CACHE = pathlib.Path(
  os.environ.setdefault("JAXROBUST_CACHE", str(pathlib.Path(__file__).parents[1] / ".cache" / "jax"))
)

jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
