"""Config files: Python modules with `get_config(arg=None) -> ConfigDict`."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path

from ml_collections import ConfigDict

from jaxrobust.core.errors import InputError, first_line


def load_config(path: str) -> ConfigDict:
  """Reads `FILE.py` or `FILE.py:argument`."""
  name, _, argument = path.partition(".py:")
  file = Path(name + ".py" if argument else name)
  if not file.exists():
    raise InputError(f"no config file {file}")
  spec = importlib.util.spec_from_file_location(f"jaxrobust_config_{file.stem}", file)
  if spec is None or spec.loader is None:
    raise InputError(f"{file} is not a Python file")
  module = importlib.util.module_from_spec(spec)
  try:
    spec.loader.exec_module(module)
  except Exception as error:
    raise InputError(f"{file} cannot be read: {type(error).__name__}: {first_line(error)}") from error
  get_config = getattr(module, "get_config", None)
  if get_config is None:
    raise InputError(f"{file} has no get_config(arg=None)")
  if argument and not inspect.signature(get_config).parameters:
    raise InputError(f"{file} takes no argument, got {argument!r}")
  try:
    config = get_config(argument) if argument else get_config()
  except (KeyError, ValueError) as error:
    raise InputError(f"{file} does not know {argument!r}: {first_line(error)}") from None
  if not isinstance(config, ConfigDict):
    raise InputError(f"{file}: get_config returns {type(config).__name__}, not a ConfigDict")
  return config
