"""Any subnet of a supernet by one program: channels and kernels are masked, blocks left out by `lax.cond`.

A subnet is an argument (`space.Subnet`), so one compiled program per image size serves all of them. Widths and kernels
cost what the largest costs; blocks that are left out cost nothing. A masked network computes what the network cut out
of it computes (`slice_params`), convolution by convolution: channels beyond a width are zero behind every
normalization, so nothing reads them, and a kernel's outer ring is zero, which is the smaller kernel with its own
padding. Statistics of a channel are those of that channel alone, so those of masked ones never enter.

Weights are nested dicts by block, `s0b1`, and layer. The squeeze of MobileNetV3 keeps its width in all subnets (ours).
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.modules import normalized
from jaxrobust.core.types import Array
from jaxrobust.models.layers.conv import conv2d
from jaxrobust.nas.supernets.space import Subnet, SupernetSpace, largest, middle_width

EPSILON = 1e-5


class Layer(NamedTuple):
  """One convolution with its normalization.

  Attributes:
    size: of its kernel; 0 for what the subnet says.
    source, target: its channels: "x" of the block's input, "m" inside, "w" behind it.
    strided: whether it takes the stage's stride.
    depthwise: a kernel for each channel.
    active: whether the activation follows.
  """

  size: int
  source: str
  target: str
  strided: bool = False
  depthwise: bool = False
  active: bool = True


LAYERS = {
  "resnet-basic": (Layer(0, "x", "w", strided=True), Layer(3, "w", "w", active=False)),
  "resnet-bottleneck": (Layer(1, "x", "m"), Layer(0, "m", "m", strided=True), Layer(1, "m", "w", active=False)),
  "mobilenetv3": (
    Layer(1, "x", "m"),
    Layer(0, "m", "m", strided=True, depthwise=True),
    Layer(1, "m", "w", active=False),
  ),
}
SHORTCUT = Layer(1, "x", "w", strided=True, active=False)
SQUEEZE = 4


def _activate(kind: str, x: Array) -> Array:
  return jax.nn.hard_swish(x) if kind == "mobilenetv3" else jax.nn.relu(x)


def init_params(space: SupernetSpace, key: Array, num_classes: int = 10) -> Any:
  """Draws the weights of the largest subnet, which are those of all: He's normal distribution by fan-in."""
  top, keys = largest(space), iter(jax.random.split(key, 4 * len(space.stages) * space.blocks + 8))
  draw = lambda shape: jax.random.normal(next(keys), shape) * np.sqrt(2 / np.prod(shape[:-1]))
  norm = lambda count: {"scale": jnp.ones(count), "bias": jnp.zeros(count)}
  conv = lambda size, source, target: {"kernel": draw((size, size, source, target)), **norm(target)}
  params: dict[str, Any] = {"stem": conv(int(top.stem), 3, space.stem_width)}
  below = space.stem_width
  for index, stage in enumerate(space.stages):
    width = stage.widths[-1]
    for block in range(stage.depths[-1]):
      inside = int(middle_width(width, top.expand[index, block]))
      channels = {"x": below if block == 0 else width, "m": inside, "w": width}
      made = {}
      for number, layer in enumerate(LAYERS[space.kind]):
        source = 1 if layer.depthwise else channels[layer.source]
        made[f"conv{number}"] = conv(layer.size or stage.kernels[-1], source, channels[layer.target])
      if space.kind == "mobilenetv3":
        hidden = max(1, inside // SQUEEZE)
        made["squeeze"] = {"down": draw((inside, hidden)), "up": draw((hidden, inside)), "bias": jnp.zeros(inside)}
      elif block == 0:
        made["shortcut"] = conv(1, below, width)
      params[f"s{index}b{block}"] = made
    below = width
  params["head"] = {"kernel": draw((below, num_classes)) / 2, "bias": jnp.zeros(num_classes)}
  return params


def forward(space: SupernetSpace, params: Any, stats: Any | None, subnet: Subnet, images: Array) -> tuple[Array, Any]:
  """Computes the logits of a subnet.

  Args:
    space: of the supernet.
    params: of `init_params`, or cut out of them by `slice_params`.
    stats: of the subnet (`training.calibrate`); None to normalize by the batch, as in training.
    subnet: traced.
    images: normalized.

  Returns:
    Logits, and the mean and variance of every normalization in this batch; those of blocks left out are zero.
  """
  known = lambda name: None if stats is None else stats[name]
  x, stem = _convolve(images, params["stem"], known("stem"), subnet.stem, None, space.stem_stride)
  x, found = _activate(space.kind, x), {"stem": stem}
  for index, stage in enumerate(space.stages):
    for block in range(stage.depths[-1]):
      name = f"s{index}b{block}"
      if name not in params:
        continue
      channels = {"m": _inside(subnet, index, block), "w": subnet.width[index]}
      stride = stage.stride if block == 0 else 1
      run = lambda x, p, s, name=name, c=channels, k=subnet.kernel[index, block], t=stride, b=block: _block(
        space.kind, p, s, x, c, k, t, b == 0
      )
      if block < stage.depths[0]:
        x, found[name] = run(x, params[name], known(name))
      else:
        shapes = jax.eval_shape(run, x, params[name], known(name))[1]
        skip = lambda x, p, s, shapes=shapes: (x, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes))
        x, found[name] = lax.cond(block < subnet.depth[index], run, skip, x, params[name], known(name))
  return x.mean(axis=(1, 2)) @ params["head"]["kernel"] + params["head"]["bias"], found


def _inside(subnet: Subnet, index: int, block: int) -> Array:
  return jnp.floor(subnet.width[index] * subnet.expand[index, block] + 1e-4).astype(jnp.int32)


def _block(kind: str, params: Any, stats: Any, x: Array, channels: Any, kernel: Any, stride: int, first: bool) -> Any:
  """Computes one block, and the statistics of its normalizations."""
  y, found = x, {}
  for number, layer in enumerate(LAYERS[kind]):
    name = f"conv{number}"
    known = None if stats is None else stats[name]
    size = kernel if layer.size == 0 else None
    step = stride if layer.strided else 1
    y, found[name] = _convolve(y, params[name], known, size, channels[layer.target], step, layer.depthwise)
    y = _activate(kind, y) if layer.active else y
    if layer.depthwise:
      y = _squeeze(y, params["squeeze"])
  if kind == "mobilenetv3":
    return (y if first else x + y), found
  if first:
    known = None if stats is None else stats["shortcut"]
    x, found["shortcut"] = _convolve(x, params["shortcut"], known, None, channels["w"], stride)
  return _activate(kind, x + y), found


def _squeeze(x: Array, params: Any) -> Array:
  hidden = jax.nn.relu(x.mean(axis=(1, 2)) @ params["down"])
  return x * jax.nn.hard_sigmoid(hidden @ params["up"] + params["bias"])[:, None, None]


def _convolve(
  x: Array, params: Any, stats: Any, size: Any, width: Any, stride: int, depthwise: bool = False
) -> tuple[Array, tuple[Array, Array]]:
  """Applies a masked convolution and its masked normalization; `size` and `width` None for all there is."""
  kernel = params["kernel"]
  side = kernel.shape[0] // 2
  if size is not None and kernel.shape[0] > 1:
    ring = jnp.abs(jnp.arange(kernel.shape[0]) - side)
    inner = (2 * jnp.maximum(ring[:, None], ring[None]) < size).astype(kernel.dtype)
    kernel = kernel * inner[:, :, None, None]
  padding = ((side, side), (side, side))
  y = conv2d(x, kernel, (stride, stride), padding, groups=kernel.shape[-1] if depthwise else 1)
  if stats is None:
    mean = y.mean(axis=(0, 1, 2))
    var = jnp.square(y - mean).mean(axis=(0, 1, 2))
  else:
    mean, var = stats
  out = (y - mean) * (lax.rsqrt(var + EPSILON) * params["scale"]) + params["bias"]
  if width is not None:
    out = out * (jnp.arange(out.shape[-1]) < width)
  return out, (mean, var)


def slice_params(space: SupernetSpace, tree: Any, subnet: Subnet) -> Any:
  """Cuts a subnet out of weights or statistics: real arrays of its own sizes, without what it does not use."""
  cut: dict[str, Any] = {"stem": _cut(tree["stem"], None, None, int(subnet.stem))}
  below = space.stem_width
  for index, width in enumerate(subnet.width.tolist()):
    for block in range(int(subnet.depth[index])):
      inside = int(middle_width(width, subnet.expand[index, block]))
      channels = {"x": below if block == 0 else width, "m": inside, "w": width}
      old, new = tree[f"s{index}b{block}"], {}
      layers = {f"conv{number}": layer for number, layer in enumerate(LAYERS[space.kind])} | {"shortcut": SHORTCUT}
      for name, layer in layers.items():
        if name in old:
          source = None if layer.depthwise else channels[layer.source]
          size = int(subnet.kernel[index, block]) if layer.size == 0 else None
          new[name] = _cut(old[name], source, channels[layer.target], size)
      if "squeeze" in old:
        part = old["squeeze"]
        new["squeeze"] = {
          "down": part["down"][:inside],
          "up": part["up"][:, :inside],
          "bias": part["bias"][:inside],
        }
      cut[f"s{index}b{block}"] = new
    below = width
  if "head" in tree:
    cut["head"] = {"kernel": tree["head"]["kernel"][:below], "bias": tree["head"]["bias"]}
  return cut


def _cut(part: Any, source: int | None, target: int | None, size: int | None) -> Any:
  if isinstance(part, tuple):  # Statistics.
    return tuple(leaf[:target] for leaf in part)
  kernel = part["kernel"]
  ring = 0 if size is None or kernel.shape[0] == 1 else (kernel.shape[0] - size) // 2
  inner = slice(ring, kernel.shape[0] - ring)
  return {
    "kernel": kernel[inner, inner, :source, :target],
    "scale": part["scale"][:target],
    "bias": part["bias"][:target],
  }


@dataclasses.dataclass(frozen=True)
class _SubnetLogits:
  """A function that compares equal for all subnets of one supernet."""

  space: SupernetSpace

  def __call__(self, variables: Any, images: Array) -> Array:
    subnet = Subnet(*variables["subnet"])
    inputs = normalized(variables, images, None)
    return forward(self.space, variables["params"], variables["stats"], subnet, inputs)[0]


def subnet_classifier(space: SupernetSpace, params: Any, stats: Any, subnet: Subnet, mean: Any, std: Any) -> Classifier:
  """Wraps a recalibrated subnet for attacks and evaluation; all subnets share the programs of one image size."""
  weights = {
    "params": params,
    "stats": stats,
    "subnet": tuple(map(jnp.asarray, subnet)),
    "mean": jnp.asarray(mean, jnp.float32),
    "std": jnp.asarray(std, jnp.float32),
  }
  classes = params["head"]["bias"].shape[0]
  return Classifier.from_function(_SubnetLogits(space), classes, variables=weights, name="jaxrobust.nas.supernets")
