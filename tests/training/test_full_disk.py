"""A disk that is full is one line, also where threads write to it."""

import subprocess
import sys

CHILD = """
import resource, sys
import jax.numpy as jnp
from jaxrobust.core.errors import StorageError
from jaxrobust.training.checkpoints import Checkpoints

checkpoints = Checkpoints(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
try:
  checkpoints.save(1, {"w": jnp.sin(jnp.arange(1e5))}, [0.5])
  checkpoints.wait()
except StorageError as error:
  print(error)
"""


def test_a_checkpoint_that_cannot_be_written_is_one_line(tmp_path):
  words = [sys.executable, "-c", CHILD, str(tmp_path / "checkpoints")]
  done = subprocess.run(words, capture_output=True, text=True, timeout=120)
  assert done.stdout.startswith("cannot write a checkpoint to") and done.stdout.count("\n") == 1, done
  assert "Traceback" not in done.stderr, done.stderr
