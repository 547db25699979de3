"""The training loop: one file to read from top to bottom.

A run is a folder. `run.json` says what it makes, `train.jsonl` how it went, `checkpoints/` where it is, `best/` the
best epoch so far; when it is finished the folder itself is a classifier that `load_classifier` takes. Running a
folder again continues it, or returns at once when it is done. Everything random is a function of (seed, step,
example), so a run that was stopped ends with the very weights of one that was not.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import CellMismatchError, InputError, StoppedError, StorageError, TrainingError
from jaxrobust.core.files import write_json
from jaxrobust.core.mesh import fitting_mesh
from jaxrobust.core.progress import ProgressFn, show
from jaxrobust.core.reading import read_json
from jaxrobust.core.stopping import StopRequest
from jaxrobust.data.preprocessing import preprocessing_name
from jaxrobust.data.registry import DATASETS, load_data
from jaxrobust.models.registry import MODELS
from jaxrobust.models.zoo import read_metadata
from jaxrobust.training.checkpoints import Checkpoints
from jaxrobust.training.config import TrainConfig, same_identity
from jaxrobust.training.inputs import check_inputs, known_content, load_frozen_models, start_from
from jaxrobust.training.logs import Log, LogWindow
from jaxrobust.training.processes import Vote, add_up, check_alike, gather
from jaxrobust.training.profiling import Profile
from jaxrobust.training.recipes import crop_while_reading, exported_options, make_recipe
from jaxrobust.training.run import Run, exported, finish, host_variables, save_weights
from jaxrobust.training.state import TrainState, init_state, restored, state_shardings, stored
from jaxrobust.training.step import first_nonfinite, make_step
from jaxrobust.training.stream import Stream, count_ids, split_ids, training_data
from jaxrobust.training.validation import Score, overfitted, validate

_RUN = "run.json"
# Examples by which a run without held-out ones is watched.
WATCHED = 250


def check_train_config(config: TrainConfig) -> None:
  """Looks every name up, so that a typo is found before the first network is trained."""
  MODELS[config.arch]
  # Names that say more than a set's own (npz:PATH, folder:PATH, imagenet@5000) are understood by loading alone.
  load_data(config.data) if set(config.data) & set(":@") else DATASETS[config.data]
  exported_options(config, config.plan())


def train(
  config: TrainConfig,
  out: str | Path,
  *,
  title: str = "train",
  quiet: bool = False,
  mesh: Mesh | None = None,
  profile: bool = False,
) -> Path:
  """Trains and saves a classifier, continuing what `out` holds; `profile` records a few steps into its folder.

  Raises:
    CellMismatchError: `out` holds a run of another config.
    StoppedError: the process was asked to end (SIGTERM); a checkpoint is saved.
    TrainingError: the loss is not a number.
  """
  if "://" in str(out):
    raise InputError(f"a run is a folder that all its machines see, not {out}: mount the bucket, and name the mount")
  folder = Path(out)
  if _finished(config, folder):
    return folder
  mesh = fitting_mesh(config.batch_size, jax.devices()) if mesh is None else mesh
  with StopRequest() as stop:
    run, state = _start(config, folder, mesh, stop)
    run.profile = profile
    images = run.total_steps * config.batch_size
    # Closing waits for all processes: only where they are known to come along.
    together = jax.process_count() == 1
    try:
      done, batch = int(state.step) * config.batch_size, config.batch_size
      with show(title, images, done, batch=batch, quiet=quiet or not run.chief) as meter:
        state = _steps(run, state, meter)
      finish(run, state)
      together = True
    except StoppedError:
      together = True
      raise
    finally:
      run.log.close()
      if together:
        run.checkpoints.close()
  return folder


def _finished(config: TrainConfig, folder: Path) -> bool:
  """Returns whether the folder holds this very network; another one is an error."""
  metadata = read_metadata(folder)
  path = folder / _RUN
  known = metadata["notes"].get("train") if metadata else read_json(path) if path.exists() else None
  if (metadata is not None or known is not None) and not same_identity(known, config):
    raise CellMismatchError(f"{folder} holds a network trained with another config; use another folder or remove it")
  return metadata is not None


def _start(config: TrainConfig, folder: Path, mesh: Mesh, stop: StopRequest) -> tuple[Run, TrainState]:
  """Returns the run, and its state as it was left or fresh."""
  spec = MODELS[config.arch]
  seen = config.preprocess or preprocessing_name(spec.input_size[0], spec.crop_fraction, spec.interpolation)
  data = training_data(config.data, config.extra_data, config.extra_part, config.batch_size, seen)
  size = len(data) - config.holdout
  if config.batch_size > size:
    raise InputError(f"batch_size {config.batch_size} is larger than {config.data} ({size} examples)")
  total = max(1, math.ceil(config.epochs * size / config.batch_size))
  recipe = make_recipe(config, data.num_classes, size, total)
  crop, recipe = crop_while_reading(data, recipe)
  shape = data.take(np.arange(1))[0].shape[1:]
  given = start_from(config.init, recipe.module, shape, config.seed) if config.init else None
  frozen_models, inputs = load_frozen_models(recipe.plan.classifiers, recipe.num_classes, shape, mesh, config.sharding)
  inputs |= known_content(config.data, data)
  check_alike(config.identity() | {"the content of the data": inputs, "the number of examples": len(data)}, mesh)
  key, averaged = jax.random.key(config.seed), recipe.plan.average is not None
  objective_state = lambda: recipe.plan.objective.init_state((config.batch_size, *shape), count_ids(data))
  build = lambda: init_state(recipe.module, recipe.optimizer, key, shape, averaged, given, objective_state())
  shapes = jax.eval_shape(build)
  shardings = state_shardings(shapes, mesh, config.sharding)
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    raise StorageError(f"cannot write the run to {folder}: {error.strerror or error}") from None
  if jax.process_index() == 0:
    write_json(folder / _RUN, config.identity())
  check_inputs(folder, inputs, write=jax.process_index() == 0)
  checkpoints = Checkpoints(folder / "checkpoints")
  found = checkpoints.restore(stored(shapes), stored(shardings))
  check_alike({"the checkpoint that they read": found and found[0]}, mesh)
  if found:
    step, state, window = found[0], restored(found[1]), found[2]
    checkpoints.drop_after(step, lambda: gather(np.zeros(1, np.int32), mesh))
  else:
    # Weights that are given must not become constants of a program.
    state = jax.device_put(build(), shardings) if given else jax.jit(build, out_shardings=shardings)()
    step, window = 0, []
  log = Log(folder, step, active=jax.process_index() == 0)
  return Run(
    config, folder, recipe, mesh, data, size, total, log, checkpoints, stop, frozen_models, window, crop
  ), state


def _steps(run: Run, state: TrainState, meter: ProgressFn) -> TrainState:
  """Steps to the end of the run, with everything that happens between them."""
  config, step = run.config, int(state.step)
  shardings = jax.tree.map(lambda leaf: leaf.sharding, state)
  advance = make_step(run.recipe, run.mesh, shardings, run.frozen_models)
  vote = Vote(run.mesh)
  # An epoch that ended right at the checkpoint may not have been looked at yet.
  if step and _ends_epoch(run, step):
    _validate_epoch(run, state, step)
  stream = Stream(run.data, run.train_size, config.batch_size, config.seed, run.mesh, step, run.crop)
  window = LogWindow(run.window)
  report: dict[str, Any] = {}
  profile = Profile(run.folder / "profile" if run.profile and run.chief else None)
  try:
    batches = iter(stream)
    while step < run.total_steps:
      begin = time.monotonic()
      rows = next(batches)
      waited = time.monotonic() - begin
      before = report
      profile.before(step)
      state, report = advance(state, *rows)
      profile.after(step, report)
      step += 1
      _check(before, step - 1, state)  # The step before: it is over, so reading it waits for nothing.
      window.add(report["metrics"], waited)
      meter(step * config.batch_size)
      leaving = vote(run.stop.asked)
      if step % config.log_every == 0 or step == run.total_steps:
        run.log.write(step, **window.line(config.batch_size))
        window = LogWindow([])
      ended = _ends_epoch(run, step)
      due = step % config.save_every == 0
      if leaving or due or ended:
        _check(report, step, state)
        run.checkpoints.save(step, stored(state), window.sums)
      if leaving:
        run.checkpoints.wait()
        raise _stopped(run, step)
      if ended:
        with window.paused():
          _validate_epoch(run, state, step)
  finally:
    profile.close()
    stream.close()
  return state


def _ends_epoch(run: Run, step: int) -> bool:
  return run.epoch_of(step) > run.epoch_of(step - 1) or step == run.total_steps


def _stopped(run: Run, step: int) -> StoppedError:
  return run.stop.error(f"after step {step} of {run.total_steps}")


def _check(report: dict[str, Any], step: int, state: TrainState) -> None:
  found = first_nonfinite(report, state.params) if report else None
  if found:
    raise TrainingError(f"not a number at step {step}: {found}; lower the learning rate or look at the data")


def _validate_epoch(run: Run, state: TrainState, step: int) -> None:
  """Adds scores on the held-out examples after an epoch; the best epoch's weights are kept.

  Training with a single step is watched in any case, on examples that it trains on where none are held out.
  """
  objective = run.recipe.plan.objective
  watched = run.config.holdout or (objective.num_steps == 1 and objective.budget > 0)
  if not watched or any(entry["step"] == step and "robust" in entry for entry in run.log.entries):
    return
  variables = host_variables(run, state)
  score = _validated(run, variables)
  if score is None:
    # Left here, where the checkpoint is: one step on, this epoch would never be looked at.
    run.checkpoints.wait()
    raise _stopped(run, step)
  scores = [Score(entry["clean"], entry["robust"]) for entry in run.log.entries if "robust" in entry]
  accuracy = next((entry["accuracy"] for entry in reversed(run.log.entries) if "accuracy" in entry), 0.0)
  warning = overfitted([*scores, score], accuracy)
  named = {"warning": warning} if warning else {}
  if run.chief and run.config.holdout and (not scores or score.robust > max(old.robust for old in scores)):
    found = {"step": step, "clean": score.clean, "robust": score.robust}
    save_weights(run, exported(run, variables), run.folder / "best", found)
  # The line is written last: a run that is killed before it looks again.
  run.log.write(step, epoch=run.epoch_of(step), clean=score.clean, robust=score.robust, **named)
  if warning and run.chief:
    print(warning, flush=True)


def _validated(run: Run, variables: Any) -> Score | None:
  """Returns the score of these weights: each process looks at every so many-th example, on its own devices."""
  training, held = split_ids(len(run.data), run.train_size)
  ids = held if run.config.holdout else training[:WATCHED]
  mine = ids[jax.process_index() :: jax.process_count()]
  # Not every source can be asked for nothing, which is the share of some where examples are fewer than processes.
  images, labels = (rows[: len(mine)] for rows in run.data.take(mine if len(mine) else ids[:1]))
  recipe = run.recipe
  classifier = Classifier.from_module(recipe.module, variables, mean=recipe.mean, std=recipe.std)
  stopping, total = lambda: run.stop.asked, lambda counts: add_up(counts, run.mesh)
  steps = run.config.validate_steps
  return validate(recipe.plan.objective, classifier, images, labels, steps, stopping, mine, total)
