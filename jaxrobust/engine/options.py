"""How the engine uses the machine. Nothing here may change a verdict but the precision of the network's arithmetic."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from jax.sharding import Mesh

from jaxrobust.core.errors import InputError
from jaxrobust.core.mesh import fitting_mesh, make_mesh, rows_per_device
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.types import Attack
from jaxrobust.core.validation import check_count

DTYPES = ("float32", "bfloat16")
PRECISIONS = ("highest", "high", "default", "float32", "bfloat16")

# The tail of a run may use sizes between the halves where that leaves out so many steps of slots, and a quarter of the
# slots. A compilation costs thousands of steps of a small network and hundreds of a large one.
WORTH_COMPILING = 2000
WORTH_SHRINKING = 0.75

# Minimal attacks of fewer steps than this, such as DeepFool, end as soon as they succeed.
LONG = 100
# Counters on the devices have 31 bits; there are never more slots than examples.
MOST_SLOTS = 2**31 - 1
MOST_SAMPLES = 10_000


@dataclass(frozen=True)
class EngineOptions:
  """Batch size and dispatch.

  Attributes:
    slots: examples worked on at once, over all devices; None for what suits the images and the memory (`memory`).
    steps_per_dispatch: K; 1 on CPU, where slots that fall idle within a dispatch cost more than it saves, more on
      accelerators.
    steps_when_minimal: the same for long minimal attacks, which take all their steps: no slot falls idle early.
    lookahead: groups of slots that the devices work on while the host sees to another one. 0 on CPU, 1 on
      accelerators, where the host must not stall the device: half of the slots are then in each of two groups.
    steps_when_forward: the same for attacks without gradients, whose steps are as fast inside a loop; counted in
      evaluations, so that a step of many is dispatched alone.
    mesh: devices to use; this process's own by default.
    shrink: use fewer slots for the tail of a run, and fewer rows where few are exchanged or judged, at the price of
      compiling for each number.
  """

  slots: int | None = None
  steps_per_dispatch: int = 1
  steps_when_minimal: int = 1
  steps_when_forward: int = 1
  lookahead: int = 0
  mesh: Mesh | None = None
  shrink: bool = True

  @classmethod
  def for_platform(
    cls,
    slots: int | None = None,
    *,
    steps_per_dispatch: int | None = None,
    lookahead: int | None = None,
    mesh: Mesh | None = None,
    shrink: bool = True,
  ) -> EngineOptions:
    """Returns the measured defaults for where JAX runs, with what the caller sets instead."""
    if slots is not None:
      check_count(slots, "the batch size", MOST_SLOTS)
    if mesh is None:
      mesh = make_mesh() if slots is None else fitting_mesh(slots)
    on_cpu = mesh.devices.flat[0].platform == "cpu"
    if slots is not None:
      rows_per_device(slots, mesh)
    steps = steps_per_dispatch if steps_per_dispatch is not None else (1 if on_cpu else 4)
    when_minimal = steps_per_dispatch if steps_per_dispatch is not None else 4
    when_forward = steps_per_dispatch if steps_per_dispatch is not None else 32
    ahead = lookahead if lookahead is not None else (0 if on_cpu else 1)
    if steps < 1 or ahead < 0:
      raise InputError(f"steps_per_dispatch ({steps}) must be at least 1 and lookahead ({ahead}) at least 0")
    return cls(slots, steps, when_minimal, when_forward, ahead, mesh, shrink)

  @property
  def devices(self) -> Mesh:
    return make_mesh() if self.mesh is None else self.mesh

  @property
  def groups(self) -> int:
    return self.lookahead + 1

  def steps_of(self, attack: Attack) -> int:
    """Returns K for an attack."""
    if attack.cost.backward == 0:
      # A step of many evaluations keeps the devices as busy as many steps of one.
      return min(max(self.steps_when_forward // attack.cost.forward, 1), attack.num_steps)
    takes_all = attack.minimal and attack.num_steps >= LONG
    return self.steps_when_minimal if takes_all else self.steps_per_dispatch

  def sizes(self, slots: int) -> tuple[int, ...]:
    """Returns the slot counts that a group may shrink to, largest first: halves that still split over the devices."""
    devices = self.devices.size
    sizes = [slots]
    while self.shrink and sizes[-1] % 2 == 0 and (sizes[-1] // 2) % devices == 0:
      sizes.append(sizes[-1] // 2)
    return tuple(sizes)


def check_precision(precision: str) -> None:
  """Refuses a precision of matrix products and convolutions that JAX does not know."""
  if precision not in PRECISIONS:
    raise unknown_name("precision", str(precision), list(PRECISIONS))


def check_dtype(dtype: str) -> None:
  """Refuses an arithmetic that networks are not evaluated in."""
  if dtype not in DTYPES:
    raise unknown_name("dtype", str(dtype), list(DTYPES))


def check_samples(*samples: int | None) -> None:
  """Raises InputError where a randomized classifier would be evaluated less than once."""
  for count in samples:
    if count is not None:
      check_count(count, "samples", MOST_SAMPLES)


def smallest_fitting(sizes: tuple[int, ...], rows: int) -> int:
  """Returns the smallest size that holds `rows`, or the largest there is.

  >>> smallest_fitting((64, 32, 16), 20)
  32
  """
  return min((size for size in sizes if size >= rows), default=max(sizes))


def tail_size(sizes: tuple[int, ...], rows: int, now: int, devices: int, num_steps: int) -> int:
  """Returns the slots for the last `rows` items: one of `sizes`, or a size between two of them where that saves enough.

  >>> tail_size((128, 64, 32), 70, 128, 2, num_steps=100), tail_size((128, 64, 32), 70, 128, 2, num_steps=10)
  (80, 128)
  """
  half = min(smallest_fitting(sizes, rows), now)
  fine = smallest_fitting((half, *_between(sizes, devices)), rows)
  worth = (half - fine) * num_steps >= WORTH_COMPILING and fine <= WORTH_SHRINKING * now
  return fine if worth else half


def _between(sizes: tuple[int, ...], devices: int) -> list[int]:
  """Returns the quarters of the way from each size to the next that still split over the devices."""
  steps = [large - (large - small) * part // 4 for large, small in itertools.pairwise(sizes) for part in (1, 2, 3)]
  return [size for size in steps if size % devices == 0]
