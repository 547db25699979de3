"""The names of a checkpoint's tensors against the names of a network: wrappers, prefixes and other spellings.

Checkpoints wrap a state dict in training states (`state_dict`, `model`, EMA copies), prefix every name (`module.`,
`model.`, `attacker.model.`), store a normalization layer and auxiliary heads, and different ports of one architecture
name its layers differently. Prefixes are found by looking for the one that fits most names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.models.weights.torch_spellings import SPELLINGS

State = dict[str, np.ndarray]

# Averaged weights first, as timm's loader does: they are the ones papers report.
_EMA = ("state_dict_ema", "model_ema", "ema_state_dict", "ema_model", "ema", "params_ema")
_WRAPPERS = (*_EMA, "state_dict", "model_state_dict", "model", "net", "network", "params", "weights", "module")
# Counters and buffers that nothing reads, and heads that only training uses.
_IGNORED = re.compile(r"(^|\.)(num_batches_tracked|relative_position_index|attn_mask|total_ops|total_params)$")
# (TRADES stores a copy of its first stage that it never calls.)
_TRAINING_ONLY = re.compile(r"(^|\.)(aux\d|AuxLogits|aux_classifier|sub_block1)\.")
_MEAN, _STD = {"mean", "mu", "new_mean", "_mean"}, {"std", "sigma", "new_std", "_std"}


def unwrap(tree: Any, key: str = "") -> tuple[State, str]:
  """Returns the state dict inside a checkpoint and where it was; `key` names the entry ("state_dict", "model_ema", …).

  >>> unwrap({"epoch": 3, "model": {"conv1.weight": np.ones(2)}})[1]
  'model'
  """
  path: list[str] = []
  while isinstance(tree, Mapping | list):
    if isinstance(tree, list):
      if len(tree) != 1:
        raise InputError(f"the checkpoint holds {len(tree)} networks in a list; save the one that is meant")
      tree = tree[0]
      continue
    choices = [key] if key and not path else [name for name in _WRAPPERS if _holds_arrays(tree.get(name))]
    if key and not path and not _holds_arrays(tree.get(key)):
      raise InputError(
        f"the checkpoint has no weights under {key!r}; its entries are {', '.join(map(str, tree))[:200]}"
      )
    if not choices:
      state = {str(name): np.asarray(value) for name, value in tree.items() if isinstance(value, np.ndarray)}
      if not state:
        break
      return state, ".".join(path)
    path.append(choices[0])
    tree = tree[choices[0]]
  raise InputError("the checkpoint holds no state dict (a dict of names and tensors)")


def holders(tree: Any) -> list[str]:
  """Returns the entries of a checkpoint that `unwrap` may take weights from, in its order.

  >>> holders({"epoch": 3, "model": {"w": np.ones(2)}, "model_ema": {"w": np.ones(2)}})
  ['model_ema', 'model']
  """
  return [name for name in _WRAPPERS if isinstance(tree, Mapping) and _holds_arrays(tree.get(name))]


def _holds_arrays(value: Any) -> bool:
  if isinstance(value, list):
    return any(_holds_arrays(item) for item in value)
  if not isinstance(value, Mapping):
    return False
  return any(isinstance(item, np.ndarray) or _holds_arrays(item) for item in value.values())


class Match(NamedTuple):
  """The match of a checkpoint's tensors to those of a network.

  Attributes:
    found: our PyTorch name to the checkpoint's.
    mean, std: of a normalization layer stored in the checkpoint, else None.
    unused: names that stand for nothing in the network.
  """

  found: dict[str, str]
  mean: np.ndarray | None
  std: np.ndarray | None
  unused: list[str]


def match_names(wanted: Iterable[str], state: Mapping[str, np.ndarray]) -> Match:
  """Finds the spelling and the prefix that fit most of the wanted names."""
  names = frozenset(wanted)
  best: dict[str, str] = {}
  for spelling in SPELLINGS:
    found = _with_prefix(names, {spelling(name, names): name for name in state})
    best = found if len(found) > len(best) else best
    if len(best) == len(names):
      break
  used = set(best.values())
  rest = {name: np.asarray(state[name]) for name in state if name not in used and not _ignored(name)}
  mean, std = (_statistics(rest, leaves) for leaves in (_MEAN, _STD))
  if mean is not None and std is not None:
    rest = {name: array for name, array in rest.items() if name.rpartition(".")[2] not in _MEAN | _STD}
  else:
    mean = std = None
  return Match(best, mean, std, sorted(name for name in rest if not _is_copy(name, rest[name], best, state)))


def _with_prefix(names: frozenset[str], spelled: Mapping[str, str]) -> dict[str, str]:
  """Returns our names to theirs, for the prefix that most names carry."""
  prefixes: Counter[str] = Counter()
  for name in spelled:
    parts = name.split(".")
    for cut in range(len(parts)):
      if ".".join(parts[cut:]) in names:
        prefixes["".join(f"{part}." for part in parts[:cut])] += 1
  if not prefixes:
    return {}
  prefix = min(prefixes, key=lambda text: (-prefixes[text], len(text)))
  return {name: spelled[prefix + name] for name in names if prefix + name in spelled}


def _ignored(name: str) -> bool:
  return bool(_IGNORED.search(name) or _TRAINING_ONLY.search(name))


def _statistics(rest: Mapping[str, np.ndarray], leaves: set[str]) -> np.ndarray | None:
  """Returns the one mean or std per channel among the tensors that are not weights."""
  found = [array for name, array in rest.items() if name.rpartition(".")[2] in leaves and array.size in (1, 3)]
  if not found or any(not np.array_equal(found[0].ravel(), other.ravel()) for other in found):
    return None
  return found[0].astype(np.float32).ravel()


def _is_copy(name: str, array: np.ndarray, found: Mapping[str, str], state: Mapping[str, np.ndarray]) -> bool:
  """Returns whether it is a weight stored a second time under another prefix."""
  parts = name.split(".")
  ours = (found.get(".".join(parts[cut:])) for cut in range(1, len(parts)))
  return any(theirs is not None and np.array_equal(array, state[theirs]) for theirs in ours)
