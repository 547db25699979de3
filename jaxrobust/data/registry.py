"""Data sets by name. A new one is a file with a `Dataset`, and one line here."""

from __future__ import annotations

from jaxrobust.core.errors import UnknownNameError
from jaxrobust.core.registry import Registry
from jaxrobust.data import digits32
from jaxrobust.data.npz import PREFIX, load_npz
from jaxrobust.data.source import ArraySource, Dataset

DATASETS: Registry[Dataset] = Registry("dataset")
DATASETS.register("digits32")(digits32.TEST)
DATASETS.register("digits32-train")(digits32.TRAIN)


def load_data(name: str) -> ArraySource:
  """The data set of that name; `npz:PATH` reads any numpy archive.

  Example:
    >>> source = load_data("digits32")
    >>> len(source), source.images.shape[1:], source.num_classes
    (500, (32, 32, 3), 10)
    >>> load_data("digits")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    jaxrobust.core.errors.UnknownNameError: unknown dataset 'digits'; did you mean 'digits32'...
  """
  if name.startswith(PREFIX):
    return load_npz(name.removeprefix(PREFIX))
  if name.endswith(".npz"):
    raise UnknownNameError(f"unknown dataset {name!r}; did you mean '{PREFIX}{name}'?")
  return DATASETS[name].load()


def list_datasets(pattern: str = "*") -> list[str]:
  """The names of the data sets that match a shell pattern.

  Example:
    >>> list_datasets("digits*")
    ['digits32', 'digits32-train']
  """
  return DATASETS.matching(pattern)
