"""The inputs of a run besides its config: the examples, the weights it starts from, the frozen networks it asks.

Data and networks are known by their content: a name may come to mean something else between a stop and the restart (a
file that was written again, a teacher that was trained anew), and a run that went on with it would be neither the one
nor the other. Frozen networks lie on the devices as the weights do and are arguments of the compiled step, never
constants in it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import flax
import jax
import numpy as np
from flax import linen as nn
from jax.sharding import Mesh

from jaxrobust.core.classifier import Classifier, check_logits
from jaxrobust.core.errors import CellMismatchError, InputError
from jaxrobust.core.files import write_json
from jaxrobust.core.reading import read_json
from jaxrobust.data.source import ArraySource, DataSource
from jaxrobust.models.registry import abstract_variables
from jaxrobust.models.zoo import fingerprint, load_classifier
from jaxrobust.training.state import state_shardings
from jaxrobust.training.stream import Mixture

_FILE = "inputs.json"
# Of arrays of this size or of millions of files, a fingerprint takes longer than a start should.
_MOST_BYTES = 1 << 32


def known_content(name: str, data: DataSource) -> dict[str, str]:
  """Returns the fingerprints of a data set and of an extra one, where they are soon made."""
  if isinstance(data, Mixture):
    return known_content(data.extra.name, data.extra) | known_content(name, data.source)
  whole = data
  while hasattr(whole, "source"):
    whole = whole.source
  small = isinstance(whole, ArraySource) and whole.images.nbytes < _MOST_BYTES
  return {name: data.fingerprint()} if small else {}


def check_inputs(folder: Path, fingerprints: Mapping[str, str], write: bool) -> None:
  """Compares with what the run began with, or writes it down (if this process is the one that writes)."""
  path = folder / _FILE
  if not path.exists():
    if write:
      write_json(path, dict(fingerprints))
    return
  known = read_json(path)
  changed = sorted(name for name, value in fingerprints.items() if known.get(name, value) != value)
  if changed:
    raise CellMismatchError(
      f"{folder} was begun with other content of {', '.join(changed)}; bring that back, or use another folder"
    )


def start_from(path: str, module: nn.Module, image_shape: tuple[int, int, int], seed: int = 0) -> Any:
  """Returns variables for `module` from a saved classifier; only a head for other classes may differ, and is new."""
  classifier = load_classifier(path)
  given = flax.traverse_util.flatten_dict(classifier.variables["module"])
  expected = flax.traverse_util.flatten_dict(abstract_variables(module, image_shape))
  if set(given) != set(expected):
    odd = sorted("/".join(name) for name in set(given) ^ set(expected))
    raise InputError(f"{path} holds another architecture than {type(module).__name__}: {', '.join(odd[:3])}")
  other = [name for name in expected if given[name].shape != expected[name].shape]
  classes = classifier.num_classes, getattr(module, "num_classes", None)
  heads = lambda name: (given[name].shape[-1], expected[name].shape[-1]) == classes
  same = lambda name: given[name].shape[:-1] == expected[name].shape[:-1]
  last = {name[:-1] for name in other}
  if len(last) > 1 or not all(heads(name) and same(name) for name in other):
    names = ", ".join(sorted("/".join(name) for name in other))
    raise InputError(f"{path} does not fit {type(module).__name__}: {names} have other shapes")
  if other:
    print(f"the head {'/'.join(other[0][1:-1])} is new: {path} has another number of classes", file=sys.stderr)
    fresh = module.init(
      dict.fromkeys(("params", "noise"), jax.random.key(seed)), np.zeros((1, *image_shape), np.float32)
    )
    given |= {name: leaf for name, leaf in flax.traverse_util.flatten_dict(fresh).items() if name in other}
  return flax.traverse_util.unflatten_dict(given)


def load_frozen_models(
  names: Iterable[str], num_classes: int, image_shape: tuple[int, int, int], mesh: Mesh, sharding: str = "data"
) -> tuple[dict[str, Classifier], dict[str, str]]:
  """Returns the named classifiers (folders or zoo names) on the mesh, and their fingerprints.

  Raises:
    InputError: one of them cannot answer about the images.
  """
  frozen_models, fingerprints = {}, {}
  for name in dict.fromkeys(names):
    classifier = load_classifier(name)
    if classifier.num_classes != num_classes:
      raise InputError(f"{name} knows {classifier.num_classes} classes, the data have {num_classes}")
    check_logits(classifier, image_shape)
    fingerprints[name] = fingerprint(classifier)
    frozen_models[name] = jax.device_put(jax.device_get(classifier), state_shardings(classifier, mesh, sharding))
  return frozen_models, fingerprints
