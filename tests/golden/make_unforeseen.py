"""Writes unforeseen.npz: renderings and steps of ImageNet-UA's own code, for `tests/attacks/test_unforeseen.py`.

  git clone https://github.com/centerforaisafety/adversarial-corruptions (commit 772509b)
  PATH_OF_TORCH/python tests/golden/make_unforeseen.py adversarial-corruptions

Needs torch alone. For each attack: the offset w, the image it renders, and the offset after one step of the attack
against the linear loss sum(image · weights), all in the authors' layout; and what chance decided, where it did.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path

import numpy as np
import torch

SIDE = 16


def reference(folder: str) -> dict[str, types.ModuleType]:
  """Imports the authors' attacks on a CPU; torchvision is only used for a blur of one pixel, and not needed."""
  sys.path.insert(0, folder)
  vision = types.ModuleType("torchvision")
  vision.transforms = types.ModuleType("torchvision.transforms")
  vision.transforms.GaussianBlur = lambda size, sigma: lambda kernel: kernel
  sys.modules |= {"torchvision": vision, "torchvision.transforms": vision.transforms}
  import config

  config.device = "cpu"
  names = ("attacks", "jpeg", "elastic", "wood", "glitch", "kaleidoscope", "pixel", "snow", "gabor")
  return {name: __import__(f"attacks.{name}", fromlist=["x"]) for name in names}


def main(folder: str) -> None:
  ua, made, rng = reference(folder), {}, np.random.default_rng(0)

  def tensor(*shape: int, low: float = 0.0, high: float = 1.0) -> torch.Tensor:
    return torch.tensor(rng.uniform(low, high, shape), dtype=torch.float32)

  image, weights = tensor(1, 3, SIDE, SIDE), tensor(1, 3, SIDE, SIDE, low=-1.0)
  made |= {"image": image, "weights": weights}
  shrink, unit = ua["attacks"].tensor_clamp_l2, ua["attacks"].normalize_l2

  def record(name: str, offset: torch.Tensor, render, step: float, project, direction=torch.sign) -> None:
    offset.requires_grad_()
    shown = render(offset)
    slope = torch.autograd.grad((shown * weights).sum(), offset)[0]
    after = project((offset + step * direction(slope)).detach())
    made.update({f"{name}-offset": offset, f"{name}-image": shown, f"{name}-after": after})

  def clamp(eps: float):
    return lambda x: x.clamp(-eps, eps)

  blocks = tensor(1, 3, 4, 8, 8, low=-0.02, high=0.02)
  record("jpeg", blocks, lambda w: ua["jpeg"].apply_jpeg(image, w), 0.0024, clamp(0.02))
  warp = tensor(1, 2, 8, 8, low=-0.1, high=0.1)
  record("elastic", warp, lambda w: ua["elastic"].flow(image, w, 2), 0.006, lambda x: shrink(x, 0, 0.5))
  rings = tensor(1, 1, 16, 16, low=-0.05, high=0.05)
  wood = ua["wood"]
  record(
    "wood", rings, lambda w: wood.apply_wood_noise(image, wood.wood_noise(w, image.shape, 5, 8)), 0.000625, clamp(0.05)
  )
  bands = tensor(1, 3, 16, low=-0.1, high=0.1)
  record("glitch", bands, lambda w: ua["glitch"].glitch_image(image, w, 16), 0.0025, clamp(0.1))
  squares, pixel = tensor(1, 3, 4, 4), ua["pixel"]
  small = pixel.get_pixels(image, 4)
  record(
    "pixel",
    squares,
    lambda w: pixel.pixelate_image(image, small, w),
    1.0,
    lambda x: shrink(x, 0, 3.0).clamp(0, 1),
    unit,
  )

  field, gabor = tensor(3, 1, SIDE, SIDE, low=-0.03, high=0.03) * (tensor(3, 1, SIDE, SIDE) < 0.1), ua["gabor"]
  angle, frequency = torch.tensor([0.7]), torch.tensor([4.1])
  kernel = gabor.get_gabor_with_sides(23, 3, frequency, angle, 3)
  gabor.create_gabor_kernel = lambda *_: kernel[None, None]
  mask = (field != 0).float()
  record(
    "gabor",
    field,
    lambda w: image + gabor.generate_random_distribution(w, mask, image, 1, 23, 3, 3, SIDE),
    0.0025,
    clamp(0.03),
  )
  made |= {"gabor-kernel": kernel, "gabor-angle": angle, "gabor-frequency": frequency}

  snow, np_lines = ua["snow"], []
  rows = [(mid, r, c, w) for mid, r, c in ((1, 2, 2), (7, 8, 14), (7, 14, 8), (7, 11, 13)) for w in (1, 3, 5)]
  for mid, row, column, width in rows:
    drawn = np.zeros((2 * mid + 1, 2 * mid + 1))
    y, x, value = snow.weighted_line(mid, mid, column, row, width, mid, 2 * mid + 1)
    drawn[y, x] = value
    drawn[: mid + 1, : mid + 1] = drawn[::-1, ::-1][: mid + 1, : mid + 1]
    np_lines.append(np.pad(drawn, 7 - mid))
  made |= {"snow-lines": np.stack(np_lines), "snow-ends": np.array(rows)}
  np.random.seed(0)
  kernels = snow.make_snow_kernels(1, 5, 3, 1, (10, 15))
  flakes = tensor(1, 5, SIDE, SIDE) * (tensor(1, 5, SIDE, SIDE) < 0.05)
  there = (flakes != 0).float()
  record(
    "snow",
    flakes,
    lambda w: snow.apply_snow(image, snow.make_snow(w, there, kernels, 4), 0.15),
    0.2,
    lambda x: shrink(x, 0, 3.0),
  )
  made["snow-kernels"] = kernels

  scope = ua["kaleidoscope"]
  y, x = np.mgrid[:SIDE, :SIDE]
  masks = torch.tensor(np.stack([(x - 5) ** 2 + (y - 6) ** 2 < 9, (abs(x - 8) < 3) & (abs(y - 9) < 2)]))[None]
  first, edge, rims = tensor(1, 2, 3), tensor(1, 1, SIDE, SIDE, high=0.1), scope.get_edge_masks(masks[0], 5)[None]
  colors = tensor(1, 2, 3, low=-0.1, high=0.1)
  record(
    "kaleidoscope",
    colors,
    lambda w: scope.add_variables(image, masks, w, rims, edge, 0.2, first, True),
    0.005,
    clamp(0.1),
  )
  made |= {"kaleidoscope-masks": masks, "kaleidoscope-first": first, "kaleidoscope-edges": edge}

  plain = {key: np.asarray(value.detach() if torch.is_tensor(value) else value) for key, value in made.items()}
  small = {key: value.astype(np.float32) if value.dtype == np.float64 else value for key, value in plain.items()}
  np.savez_compressed(Path(__file__).with_name("unforeseen.npz"), **small)


if __name__ == "__main__":
  main(sys.argv[1])
