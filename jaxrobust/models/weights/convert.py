"""Other people's weights as our classifiers: a weight file in, a classifier folder out.

What a file does not say, and was assumed, is said aloud.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import linen as nn

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.models.registry import MODELS, ModelSpec, abstract_variables, make_model
from jaxrobust.models.weights.state_facts import POSITIONS, read_facts, resize_positions
from jaxrobust.models.weights.stored_logits import compare_logits
from jaxrobust.models.weights.torch_names import State, holders, unwrap
from jaxrobust.models.weights.torch_weights import TorchWeights, read_state
from jaxrobust.models.weights.weight_files import read_hashed
from jaxrobust.models.zoo import save_classifier

ASSUMED = "assumed"


class Conversion(NamedTuple):
  """The folder a classifier was written to, what went into it, and what a reader must know, in lines."""

  folder: pathlib.Path
  params: int
  mean: tuple[float, ...]
  std: tuple[float, ...]
  normalization: str
  notes: tuple[str, ...] = ()


class _Fitted(NamedTuple):
  """A network as the tensors of a file ask for it."""

  module: nn.Module
  weights: TorchWeights
  shape: tuple[int, int, int]
  classes: int
  notes: list[str]


def convert_checkpoint(
  checkpoint: str | os.PathLike,
  arch: str,
  out: str | os.PathLike,
  *,
  num_classes: int | None = None,
  sha256: str = "",
  key: str = "",
  mean: tuple[float, ...] | None = None,
  std: tuple[float, ...] | None = None,
  options: dict[str, Any] | None = None,
  size: int | None = None,
  check: str | os.PathLike = "",
) -> Conversion:
  """Reads a .pth, .pt, .th, .tar, .safetensors or .npz file into the architecture called `arch`.

  Args:
    checkpoint: the file; nothing in it is executed.
    arch: a name of `list_models()`.
    out: folder for `load_classifier`.
    num_classes: of the checkpoint's head; what its tensors say by default.
    sha256: the file's hash, or its first 8 or more digits.
    key: entry of the checkpoint that holds the weights; found by itself otherwise, averaged (EMA) weights first.
    mean, std: normalization; by default the one stored in the checkpoint, else the architecture's, which is a guess.
    options: further options of the architecture.
    size: side of the images, of networks that take several; that of the architecture by default, to which positions of
      another size are interpolated.
    check: a file of images and the logits that the original gave for them, see `stored_logits`; nothing is written
      where ours are others.
  """
  if (mean is None) != (std is None):
    raise InputError("mean and std belong together; give both or neither")
  spec = MODELS[arch]
  content, digest = read_hashed(checkpoint, sha256)
  state, entry = unwrap(content, key)
  fitted = _fit(arch, state, num_classes, options or {}, size)
  notes = [*_entry_note(content, entry), *fitted.notes]
  source = "given"
  if mean is None or std is None:
    mean, std, source = _normalization(spec, fitted.weights, fitted.shape[2])
    notes += _assumption(arch, mean, std) if source == ASSUMED else []
  if check:
    distance = compare_logits(check, lambda images, m, s: _logits(fitted, images, m, s), mean, std)
    notes.append(f"logits equal those of {check} to {distance:.1e} of their spread")
  folder = save_classifier(
    out,
    arch,
    fitted.weights.variables,
    num_classes=fitted.classes,
    mean=mean,
    std=std,
    options=options,
    input_shape=None if fitted.shape == spec.input_size else fitted.shape,
    notes={"converted_from": pathlib.Path(checkpoint).name, "sha256": digest, "entry": entry, "normalization": source},
  )
  params = sum(int(np.size(leaf)) for leaf in jax.tree.leaves(fitted.weights.variables["params"]))
  return Conversion(folder, params, mean, std, source, tuple(notes))


def _fit(arch: str, state: State, num_classes: int | None, options: dict[str, Any], size: int | None) -> _Fitted:
  """Returns the architecture with the classes, channels and positions that the tensors have."""
  spec, notes = MODELS[arch], []
  side = size or spec.input_size[0]
  shape = (side, side, spec.input_size[2])
  classes = spec.num_classes if num_classes is None else num_classes
  facts = read_facts(make_model(arch, classes, **options), state, shape, classes)
  if facts.classes is not None and num_classes is None:
    classes = facts.classes
    notes.append(f"{classes} classes, as its head has")
  if classes < 2:
    raise InputError(f"the head has {classes} output; a classifier chooses among at least 2 classes")
  if facts.channels is not None:
    shape = (side, side, facts.channels)
    notes.append(f"images of {facts.channels} channel{'s' if facts.channels > 1 else ''}, as its stem has")
  module = make_model(arch, classes, **options)
  if facts.side is not None:
    own = next(a.shape[1] for path, a in _leaves(abstract_variables(module, shape)) if path.endswith(POSITIONS))
    state = resize_positions(state, own)
    notes.append(
      f"positions interpolated from a grid of {facts.side}×{facts.side} to images of {side} pixels;"
      f" --size=… takes the network at the size it was trained for"
    )
  return _Fitted(module, read_state(module, state, shape, called=arch), shape, classes, notes)


def _leaves(tree: Any) -> list[tuple[str, Any]]:
  return [(path[-1].key, leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)]


def _entry_note(content: Any, entry: str) -> list[str]:
  """Says which of several sets of weights was taken."""
  first, others = entry.partition(".")[0], holders(content)
  others = [name for name in others if name != first]
  return [f"weights of entry {entry!r}; --key={others[0]} takes those of {', '.join(others)}"] if others else []


def _normalization(
  spec: ModelSpec, weights: TorchWeights, channels: int
) -> tuple[tuple[float, ...], tuple[float, ...], str]:
  if weights.mean is not None and weights.std is not None:
    return weights.mean, weights.std, "stored in the checkpoint"
  if channels != spec.input_size[2]:
    return (0.0,), (1.0,), ASSUMED
  return spec.mean, spec.std, ASSUMED


def _assumption(arch: str, mean: tuple[float, ...], std: tuple[float, ...]) -> list[str]:
  """Says aloud what nothing in the file says: a wrong guess changes every logit, and no error would tell."""
  show = lambda values: ",".join(f"{value:.4g}" for value in values)
  other = "--mean=0,0,0 --std=1,1,1 if it takes images in [0, 1] as they are"
  if not any(mean) and set(std) == {1.0}:
    other = "--mean=… --std=… if it was trained on normalized images"
  return [
    f"WARNING: the file holds no normalization; ASSUMED that of {arch}: --mean={show(mean)} --std={show(std)}."
    f" Pass {other}; --check=logits.npz compares with logits of the original"
  ]


def _logits(fitted: _Fitted, images: np.ndarray, mean: tuple[float, ...], std: tuple[float, ...]) -> np.ndarray:
  classifier = Classifier.from_module(
    fitted.module, fitted.weights.variables, mean=mean, std=std, num_classes=fitted.classes
  )
  if images.shape[1:] != fitted.shape:
    raise InputError(f"the images of --check are {images.shape[1:]}, the network takes {fitted.shape}")
  with jax.default_matmul_precision("highest"):
    return np.asarray(jax.jit(lambda c, x: c(x))(classifier, images), np.float64)
