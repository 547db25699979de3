"""One command in this process, and what must be said where it is refused."""

import contextlib
import io
import pathlib

from jaxrobust.cli.main import main

# A whole run in seconds.
TINY = f"{pathlib.Path(__file__).parents[2]}/configs/local.py:tiny"


def call(*words):
  """Exit code, standard output and standard error of one command, in this process."""
  out, err = io.StringIO(), io.StringIO()
  with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
    try:
      code = main([str(word) for word in words])
    except SystemExit as leave:
      code = leave.code
  return code, out.getvalue(), err.getvalue()


def refused(code, reason, *words):
  """The command must end with this code and one line on standard error."""
  found, out, err = call(*words)
  assert err.startswith("error: ") and err.count("\n") == 1 and err.endswith("\n"), err
  assert reason in err, err
  assert (found, out) == (code, "")


def files(folder):
  return {path.relative_to(folder): path for path in sorted(folder.rglob("*")) if path.is_file()}


def cells(folder):
  return [path for name, path in files(folder).items() if name.name.endswith(".json") and ".timing" not in name.name]
