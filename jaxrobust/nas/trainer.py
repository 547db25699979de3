"""Trains many cells by one compiled step: what changes from cell to cell is data.

  trainer = CellTrainer(make_train_config({"arch": "nb201-0", "arch_options": {"width": 8, "depth": 1}, …}))
  for uid in cells:
    trainer.train(uid, folder / f"nb201-{uid}")     # a classifier; the first compiles, the others do not

A cell's folder is a classifier as any other: `load_classifier` builds the native network, whose layers have the weights
trained here. Weights start as PyTorch draws them (`initial`), a layer that two cells have in common alike in both;
batches, their order and their augmentation are functions of seed and step, so all cells see the same. A folder that is
finished is not trained again, one that was left half-way goes on from its last checkpoint to the very same weights.
Pixels are normalized as the benchmark does for the data set that cells are trained on.

Techniques that replace the network or average its weights are refused: they would need a program of their own.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import CellMismatchError, InputError, TrainingError
from jaxrobust.core.files import write_json
from jaxrobust.core.mesh import fitting_mesh
from jaxrobust.core.nas_cells import operations_of
from jaxrobust.core.reading import read_json
from jaxrobust.core.stopping import StopRequest
from jaxrobust.models.families.nas_bench_201 import normalization
from jaxrobust.models.registry import MODELS
from jaxrobust.models.zoo import load_classifier, read_metadata, save_classifier
from jaxrobust.nas.one_program import OneProgram
from jaxrobust.training.checkpoints import Checkpoints
from jaxrobust.training.config import TrainConfig, same_identity
from jaxrobust.training.recipes import make_recipe
from jaxrobust.training.state import TrainState, init_state, restored, state_shardings, stored, variables_of
from jaxrobust.training.step import first_nonfinite, make_step
from jaxrobust.training.stream import Stream, training_data

PREFIX = "nb201-"
_RUN = "run.json"
# The host runs ahead of the devices by so many steps before it looks at what came out.
_CHECK_EVERY = 50


class CellTrainer:
  """Trains cells of one width, depth and recipe.

  Args:
    config: the recipe; its `arch` is any cell, `width` and `depth` are its `arch_options`.
    mesh: devices; by default those of this process that the batch divides over.

  Attributes:
    program: the network of all cells.
  """

  def __init__(self, config: TrainConfig, mesh: Mesh | None = None):
    _check(config)
    self.config = config
    self.mesh = fitting_mesh(config.batch_size, jax.local_devices()) if mesh is None else mesh
    self._data = training_data(config.data, config.extra_data, config.extra_part, config.batch_size)
    size = len(self._data)
    if config.batch_size > size:
      raise InputError(f"batch_size {config.batch_size} is larger than {config.data} ({size} examples)")
    self.total_steps = max(1, math.ceil(config.epochs * size / config.batch_size))
    self.program = program_of(config, self._data.num_classes)
    recipe = make_recipe(config, self._data.num_classes, size, self.total_steps)
    mean, std = normalization(config.data)
    self._recipe = dataclasses.replace(recipe, module=self.program.trained, mean=mean, std=std)
    self._key = jax.random.key(config.seed)
    shapes = jax.eval_shape(lambda: self._fresh((0,) * 6))
    self._shapes, self._shardings = shapes, state_shardings(shapes, self.mesh, "data")
    self._advance = make_step(self._recipe, self.mesh, self._shardings)

  def _fresh(self, operations: tuple[int, ...]) -> TrainState:
    """Returns a cell before its first step."""
    shape = self._data.take(np.arange(1))[0].shape[1:]
    variables = self.program.carry(operations, self.program.init(self._key, operations, shape[0]))
    return init_state(self.program.trained, self._recipe.optimizer, self._key, shape, False, variables)

  def identity(self, uid: int) -> dict[str, Any]:
    """Returns what must be equal for two folders to hold the same network of a cell."""
    return cell_config(self.config, uid).identity()

  def train(self, uid: int, folder: str | Path) -> Classifier:
    """Trains a cell into a folder, continuing what it holds.

    Args:
      uid: the cell.
      folder: of its classifier.

    Returns:
      It, by the one program.

    Raises:
      CellMismatchError: the folder holds another network.
      StoppedError: the process was asked to end; a checkpoint is saved.
      TrainingError: the loss is not a number.
    """
    folder, operations = Path(folder), operations_of(uid)
    known = load_cell(self.program, uid, folder, self.config)
    if known is not None:
      return known
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / _RUN, self.identity(uid))
    with StopRequest() as stop:
      state, report = self._steps(uid, self._found(folder, operations), folder, stop)
    variables = jax.device_get(self.program.put_down(variables_of(state)))
    notes = {"train": self.identity(uid), "step": self.total_steps, "loss": float(report["loss"])}
    self._save(uid, folder, variables, notes)
    return self.program.classifier(operations, variables, self._recipe.mean, self._recipe.std)

  def _found(self, folder: Path, operations: tuple[int, ...]) -> TrainState:
    """Returns the state of the last checkpoint, or a fresh one."""
    if (folder / "checkpoints").is_dir():
      checkpoints = Checkpoints(folder / "checkpoints")
      found = checkpoints.restore(stored(self._shapes), stored(self._shardings))
      checkpoints.close()
      if found is not None:
        return restored(found[1])
    return jax.device_put(self._fresh(operations), self._shardings)

  def _steps(self, uid: int, state: TrainState, folder: Path, stop: StopRequest) -> tuple[TrainState, dict[str, Any]]:
    config, step, report = self.config, int(state.step), {"loss": math.nan}
    checkpoints: Checkpoints | None = None
    stream = Stream(self._data, len(self._data), config.batch_size, config.seed, self.mesh, step)
    try:
      for rows in stream:
        if step >= self.total_steps:
          break
        state, report = self._advance(state, *rows)
        step += 1
        due = step % config.save_every == 0 and step < self.total_steps
        if due or stop.asked or step % _CHECK_EVERY == 0 or step == self.total_steps:
          _check_finite(report, state, uid, step)
        if due or stop.asked:
          checkpoints = checkpoints or Checkpoints(folder / "checkpoints")
          checkpoints.save(step, stored(state), [])
        if stop.asked:
          raise stop.error(f"after step {step} of {self.total_steps} of {PREFIX}{uid}")
    finally:
      stream.close()
      if checkpoints is not None:
        checkpoints.close()
    return state, report

  def _save(self, uid: int, folder: Path, variables: Any, notes: dict[str, Any]) -> None:
    """Writes the native network."""
    recipe, program, arch = self._recipe, self.program, f"{PREFIX}{uid}"
    shape = self._data.take(np.arange(1))[0].shape[1:]
    save_classifier(
      folder,
      arch,
      program.narrow(operations_of(uid), variables),
      num_classes=recipe.num_classes,
      mean=recipe.mean,
      std=recipe.std,
      options={"width": program.width, "depth": program.depth},
      notes=notes,
      portable=True,
      input_shape=None if shape == MODELS[arch].input_size else shape,
    )


def cell_config(config: TrainConfig, uid: int) -> TrainConfig:
  """Returns the recipe for one cell."""
  return dataclasses.replace(config, arch=f"{PREFIX}{uid}")


def program_of(config: TrainConfig, num_classes: int) -> OneProgram:
  """Returns the network of all cells that a recipe is for."""
  unknown = set(config.arch_options) - {"width", "depth"}
  if unknown:
    raise InputError(f"cells have the options width and depth, not {', '.join(sorted(unknown))}")
  return OneProgram(**dict(config.arch_options), num_classes=num_classes)


def stored_program(folder: str | Path) -> OneProgram:
  """Returns the network of all cells that a trained cell belongs to, by its width, depth and classes."""
  metadata = read_metadata(folder)
  if metadata is None:
    raise InputError(f"no trained cell in {folder}")
  return OneProgram(**metadata["options"], num_classes=metadata["num_classes"])


def load_cell(
  program: OneProgram, uid: int, folder: str | Path, config: TrainConfig | None = None
) -> Classifier | None:
  """Reads a trained cell into the one program, with the normalization that it was saved with.

  Args:
    program: the network of all cells.
    uid: the cell.
    folder: of a classifier `nb201-ID`, however it was trained.
    config: the recipe it must have been trained by; None for any.

  Returns:
    It, by the one program; None where the folder holds no finished classifier.
  """
  metadata, run = read_metadata(folder), Path(folder) / _RUN
  if config is not None:
    known = metadata["notes"].get("train") if metadata else read_json(run) if run.exists() else None
    if (metadata is not None or known is not None) and not same_identity(known, cell_config(config, uid)):
      raise CellMismatchError(f"{folder} holds a network trained with another config; use another folder or remove it")
  if metadata is None:
    return None
  held = stored_program(folder)
  if metadata["arch"] != f"{PREFIX}{uid}" or held != program:
    raise InputError(f"{folder} holds {metadata['arch']} as {held}, not {PREFIX}{uid} as {program}")
  operations, found = operations_of(uid), load_classifier(folder).variables
  return program.classifier(operations, program.widen(operations, found["module"]), found["mean"], found["std"])


def _check_finite(report: dict[str, Any], state: TrainState, uid: int, step: int) -> None:
  found = first_nonfinite(report, state.params)
  if found:
    raise TrainingError(f"not a number at step {step} of {PREFIX}{uid}: {found}; lower the learning rate")


def _check(config: TrainConfig) -> None:
  plan = config.plan()
  for what, used in (
    ("a technique that averages weights", plan.average is not None),
    ("a technique that changes the saved form", plan.export is not None),
    ("options of the architecture by a technique", bool(plan.arch_options)),
    ("frozen networks", bool(plan.classifiers)),
    ("an init", bool(config.init)),
    ("held-out examples", bool(config.holdout)),
  ):
    if used:
      raise InputError(f"cells are trained by one program: {what} cannot be used")
