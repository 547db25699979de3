"""Parameters and multiply-adds of any cell's network in closed form, without building it.

Both equal what the benchmark publishes for its networks and what `models.registry` counts in ours.

  >>> operations = (4, 2, 1, 2, 1, 1)  # Of id 0.
  >>> count_params(operations), count_flops(operations)
  (129306, 15647370)
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxrobust.core.nas_cells import CONV1, CONV3
from jaxrobust.nas.space import kernel_params


def count_params(operations: Sequence[int], width: int = 16, depth: int = 5, num_classes: int = 10) -> int:
  """Counts the trained numbers of a network; dead edges hold theirs, as in the benchmark's own counts.

  A convolution from C to C' channels has size² C C' of them, its normalization 2 C'.

  Args:
    operations: of the cell, by edge.
    width: channels of the first stage.
    depth: cells per stage.
    num_classes: outputs.

  Returns:
    The number that `models.registry.count_params` gives for the same network.
  """
  kernels = kernel_params(operations, live_only=False)
  norms = sum(operation in (CONV1, CONV3) for operation in operations)
  total = 27 * width + 2 * width  # The stem sees three colors.
  for stage in range(3):
    channels = width * 2**stage
    total += depth * (kernels * channels**2 + 2 * norms * channels)
    if stage:
      below = channels // 2
      total += 9 * below * channels + 9 * channels**2 + below * channels + 4 * channels
  return total + 2 * 4 * width + (4 * width + 1) * num_classes


def count_flops(
  operations: Sequence[int], width: int = 16, depth: int = 5, num_classes: int = 10, side: int = 32
) -> int:
  """Counts multiply-adds for one image as the benchmark does: convolutions, and the last layer with its bias.

  Args:
    operations: of the cell, by edge.
    width: channels of the first stage.
    depth: cells per stage.
    num_classes: outputs; their biases are counted, which `models.registry.count_flops` does not.
    side: of the image, in pixels.

  Returns:
    The benchmark's FLOPs, which it prints in millions.
  """
  kernels = kernel_params(operations, live_only=False)
  total = 27 * width * side**2
  for stage in range(3):
    channels, pixels = width * 2**stage, (side // 2**stage) ** 2
    total += depth * kernels * channels**2 * pixels
    if stage:
      below = channels // 2
      total += (9 * below * channels + 9 * channels**2 + below * channels) * pixels
  return total + (4 * width + 1) * num_classes
