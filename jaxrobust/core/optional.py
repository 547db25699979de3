"""Packages that only some commands need."""

from __future__ import annotations

import importlib
from typing import Any

from jaxrobust.core.errors import InputError


def require(package: str, extra: str, purpose: str) -> Any:
  """Imports an optional package; raises one line with the command that installs it where it is missing.

  >>> require("json", "report", "reading").__name__
  'json'
  """
  try:
    return importlib.import_module(package)
  except ImportError:
    name = package.split(".")[0]
    raise InputError(f"{purpose} needs {name}, which is not installed: pip install 'jaxrobust[{extra}]'") from None
