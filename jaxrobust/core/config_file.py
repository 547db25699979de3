"""Config files: Python modules with `get_config(arg=None) -> ConfigDict`, given as a path or by name.

configs/cifar10.py:pgd-at     a file, and what its `get_config` is given
cifar10:pgd-at                the same one of those that come with the package
"""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path

from ml_collections import ConfigDict

from jaxrobust.core.errors import InputError, first_line
from jaxrobust.core.registry import unknown_name

_PACKAGE = Path(__file__).parents[1]


def load_config(path: str) -> ConfigDict:
  """Reads `FILE.py`, `FILE.py:argument`, `NAME` or `NAME:argument`."""
  file, argument = find_config(path)
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


def find_config(path: str) -> tuple[Path, str]:
  """Returns the file of a config and its argument: what lies at the path, or else what comes with the package.

  >>> find_config("cifar10:pgd-at")[0].name, find_config("configs/local.py:tiny")[1]
  ('cifar10.py', 'tiny')
  >>> find_config("cifar-10")
  Traceback (most recent call last):
  jaxrobust.core.errors.UnknownNameError: unknown config 'cifar-10'; did you mean 'cifar10'?
  """
  head, _, tail = path.partition(".py:")
  file, argument = (Path(head + ".py"), tail) if tail else (Path(path), "")
  if not tail and file.suffix != ".py":
    head, _, argument = path.partition(":")
    file = Path(head)
  if file.is_file() or (file.suffix == ".py" and file.exists()):
    return file, argument
  known = shipped_configs()
  # The commands of a clone name the files of its folder; without the folder they are the package's.
  inside = file.parent == Path("configs") and file.suffix == ".py"
  name = file.stem if inside else str(file)
  if name in known:
    return known[name], argument
  if file.suffix == ".py":
    raise InputError(f"no config file {file}; those of the package are {', '.join(known)}")
  raise unknown_name("config", name, list(known))


def shipped_configs() -> dict[str, Path]:
  """Returns the configs that come with the package, by name: installed inside it, in a clone beside it."""
  folder = next((path for path in (_PACKAGE / "configs", _PACKAGE.parent / "configs") if path.is_dir()), _PACKAGE)
  return {path.stem: path for path in sorted(folder.glob("[!_]*.py")) if folder != _PACKAGE}
