"""Transfer attacks by name: `MIM` with pieces. Crafted on one classifier, they are meant to fool others.

  ni-fgsm     ahead; Lin et al. 2020 (arXiv:1908.06281)
  si-ni-fgsm  ahead, `scales` views x / 2^i; the same paper, 5 scales
  dim         a view resized and padded at random, with `probability`; Xie et al. 2019 (arXiv:1803.06978), 0.5
  tim         dim, its gradient convolved with a Gaussian; Dong et al. 2019 (arXiv:1904.02884), 15 × 15, ±3 sigma, 0.4
  vmi-fgsm    tuning by `neighbors` in a ball of `beta` eps; Wang and He 2021 (arXiv:2103.15571), 20 and 1.5
  vni-fgsm    ahead, tuning around the point itself; the same paper
  admix       views (x + `portion` · other) / 2^i of `mixed` others; Wang et al. 2021 (arXiv:2102.00436), 0.2, 5, 3
  ssa         `spectra` views of weighted frequencies; Long et al. 2022 (arXiv:2207.05382), 20, rho 0.5, noise 16/255
Common to all, as the authors set it: 10 steps of alpha = 1 / steps, decay 1, cross-entropy, no random start. `ssa` has
decay 0, as its code does: with decay 1 it is the paper's S2I-MI-FGSM. Norms linf and l2; untargeted and targeted.

Known deviations:
* Draws and norms belong to one image; other libraries draw once for a batch (torchattacks: one size for all).
* dim keeps the size of the image, from `smallest` 0.9 of it upwards, as ARES does (arXiv:1912.11852, appendix B), where
  its authors enlarge 299 pixels to 331 for networks that take any size. Both ends can be drawn, the full size included.
* torchattacks' DIFGSM and TIFGSM have decay 0, no momentum, unless told otherwise; its VMIFGSM has 5 neighbors.
* In l2 (the authors define linf alone) neighbors are drawn from the ball, and what `ahead` adds is as long as a step.
* admix mixes in images of a fixed pool of other classes (`Problem.others`), which belong to the example; its authors
  shuffle the batch, so that who shares it decides, and a class may be mixed with itself.
* Steps of `ssa` differentiate at the view, not through it, as its code does.
"""

from __future__ import annotations

from typing import Any

from jaxrobust.attacks.mim import MIM, Nesterov, Variance
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.attacks.views import Admixed, DiverseInputs, Gaussian, Scales, Spectrum
from jaxrobust.core.budget import check_norm


def _method(
  name: str, norm: str, num_steps: int, step_size: float | None, decay: float, loss: str, **pieces: Any
) -> MIM:
  check_norm(norm, ("linf", "l2"))
  alpha = step_size if step_size is not None or num_steps < 1 else 1.0 / num_steps
  return MIM(norm, num_steps, alpha, decay, loss=loss, name=name, **pieces)


@ATTACKS.register("ni-fgsm")
def NIFGSM(  # noqa: N802 - constructors read like classes
  norm: str = "linf", num_steps: int = 10, step_size: float | None = None, decay: float = 1.0, loss: str = "ce"
) -> MIM:
  """Momentum steps along the gradient at the point that the momentum leads to.

  >>> NIFGSM().step_size, NIFGSM().cost.forward
  (0.1, 2)
  """
  return _method("ni-fgsm", norm, num_steps, step_size, decay, loss, ahead=Nesterov())


@ATTACKS.register("si-ni-fgsm")
def SINIFGSM(  # noqa: N802
  norm: str = "linf",
  num_steps: int = 10,
  step_size: float | None = None,
  decay: float = 1.0,
  loss: str = "ce",
  scales: int = 5,
) -> MIM:
  """The same with the mean gradient over scaled copies of the image."""
  return _method("si-ni-fgsm", norm, num_steps, step_size, decay, loss, ahead=Nesterov(), views=Scales(scales))


@ATTACKS.register("dim")
def DIM(  # noqa: N802
  norm: str = "linf",
  num_steps: int = 10,
  step_size: float | None = None,
  decay: float = 1.0,
  loss: str = "ce",
  probability: float = 0.5,
  smallest: float = 0.9,
) -> MIM:
  """Diverse inputs: momentum steps along the gradient of the image resized and padded at random."""
  return _method("dim", norm, num_steps, step_size, decay, loss, views=DiverseInputs(probability, smallest))


@ATTACKS.register("tim")
def TIM(  # noqa: N802
  norm: str = "linf",
  num_steps: int = 10,
  step_size: float | None = None,
  decay: float = 1.0,
  loss: str = "ce",
  kernel: int = 15,
  sigma: float = 3.0,
  probability: float = 0.4,
  smallest: float = 0.9,
) -> MIM:
  """Translation invariant: diverse inputs, their gradient smoothed by a Gaussian."""
  views, smooth = DiverseInputs(probability, smallest), Gaussian(kernel, sigma)
  return _method("tim", norm, num_steps, step_size, decay, loss, views=views, smooth=smooth)


@ATTACKS.register("vmi-fgsm")
def VMIFGSM(  # noqa: N802
  norm: str = "linf",
  num_steps: int = 10,
  step_size: float | None = None,
  decay: float = 1.0,
  loss: str = "ce",
  neighbors: int = 20,
  beta: float = 1.5,
) -> MIM:
  """Momentum steps along the gradient, tuned by its variance around the last point."""
  return _method("vmi-fgsm", norm, num_steps, step_size, decay, loss, tuning=Variance(neighbors, beta))


@ATTACKS.register("vni-fgsm")
def VNIFGSM(  # noqa: N802
  norm: str = "linf",
  num_steps: int = 10,
  step_size: float | None = None,
  decay: float = 1.0,
  loss: str = "ce",
  neighbors: int = 20,
  beta: float = 1.5,
) -> MIM:
  """The same along the gradient at the point that the momentum leads to."""
  tuning = Variance(neighbors, beta)
  return _method("vni-fgsm", norm, num_steps, step_size, decay, loss, ahead=Nesterov(), tuning=tuning)


@ATTACKS.register("admix")
def Admix(  # noqa: N802
  norm: str = "linf",
  num_steps: int = 10,
  step_size: float | None = None,
  decay: float = 1.0,
  loss: str = "ce",
  mixed: int = 3,
  scales: int = 5,
  portion: float = 0.2,
) -> MIM:
  """Momentum steps along the mean gradient over scaled copies with a little of other images."""
  return _method("admix", norm, num_steps, step_size, decay, loss, views=Admixed(mixed, scales, portion))


@ATTACKS.register("ssa")
def SSA(  # noqa: N802
  norm: str = "linf",
  num_steps: int = 10,
  step_size: float | None = None,
  decay: float = 0.0,
  loss: str = "ce",
  spectra: int = 20,
  rho: float = 0.5,
  noise: float = 16 / 255,
) -> MIM:
  """Spectrum simulation: steps along the mean gradient at copies whose frequencies are weighted at random."""
  return _method("ssa", norm, num_steps, step_size, decay, loss, views=Spectrum(spectra, rho, noise))
