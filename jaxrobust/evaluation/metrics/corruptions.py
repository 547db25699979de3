"""Corruption error and its mean (Hendrycks and Dietterich 2019, arXiv:1903.12261).

CE_c = Σ_s E_{s,c} / Σ_s E_{s,c}^AlexNet, and mCE its mean over the fifteen corruptions of the benchmark. AlexNet's
errors belong to the official ImageNet-C files: for CIFAR-C and other data there is no mCE, only the mean error.

AlexNet's errors per severity are those of public evaluation code (see `third_party/README.md`); their means are the
constants of the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from jaxrobust.core.errors import InputError

ALEXNET_ERRORS: dict[str, tuple[float, ...]] = {
  "gaussian_noise": (0.69528, 0.82542, 0.93554, 0.98138, 0.99452),
  "shot_noise": (0.71224, 0.85108, 0.93574, 0.98182, 0.99146),
  "impulse_noise": (0.78374, 0.89808, 0.94870, 0.98720, 0.99548),
  "defocus_blur": (0.65624, 0.73202, 0.85036, 0.91364, 0.94714),
  "glass_blur": (0.64308, 0.75054, 0.88806, 0.91622, 0.93344),
  "motion_blur": (0.58430, 0.70048, 0.82108, 0.89750, 0.92638),
  "zoom_blur": (0.70008, 0.76992, 0.80784, 0.84198, 0.87198),
  "snow": (0.71726, 0.88392, 0.86468, 0.91870, 0.94952),
  "frost": (0.61390, 0.79734, 0.88790, 0.89942, 0.93430),
  "fog": (0.67474, 0.76050, 0.84378, 0.87260, 0.94500),
  "brightness": (0.45140, 0.48502, 0.54048, 0.62166, 0.72440),
  "contrast": (0.64548, 0.76150, 0.88874, 0.97760, 0.99270),
  "elastic_transform": (0.52596, 0.70116, 0.55686, 0.64076, 0.80554),
  "pixelate": (0.52218, 0.54620, 0.73728, 0.87092, 0.91262),
  "jpeg_compression": (0.51002, 0.54718, 0.57294, 0.65458, 0.74778),
}

# Mean errors alone are known of the four extra corruptions.
ALEXNET_EXTRA = {"speckle_noise": 0.8454, "gaussian_blur": 0.7871, "spatter": 0.7175, "saturate": 0.6583}

Errors = Mapping[str, Sequence[float]]


def corruption_error(name: str, errors: Sequence[float]) -> float:
  """Returns CE of one corruption from the errors at its severities, all five of them.

  >>> corruption_error("fog", ALEXNET_ERRORS["fog"])
  1.0
  """
  if name in ALEXNET_EXTRA:
    return float(np.mean(_five(name, errors)) / ALEXNET_EXTRA[name])
  return float(np.sum(_five(name, errors)) / np.sum(_alexnet(name)))


def mean_corruption_error(errors: Errors) -> float:
  """Returns mCE over the fifteen corruptions of the benchmark; others in `errors` do not count.

  >>> mean_corruption_error(ALEXNET_ERRORS)
  1.0
  """
  return float(np.mean([corruption_error(name, _of(errors, name)) for name in ALEXNET_ERRORS]))


def corruption_robustness(errors: Errors) -> float:
  """Returns 1 - mCE, as RobustART reports it (higher is better)."""
  return 1.0 - mean_corruption_error(errors)


def _alexnet(name: str) -> tuple[float, ...]:
  if name not in ALEXNET_ERRORS:
    raise InputError(f"there is no AlexNet error for {name!r}: mCE is defined for ImageNet-C's corruptions only")
  return ALEXNET_ERRORS[name]


def _of(errors: Errors, name: str) -> Sequence[float]:
  if name not in errors:
    missing = [other for other in ALEXNET_ERRORS if other not in errors]
    raise InputError(f"mCE needs all fifteen corruptions; missing: {', '.join(missing)}")
  return errors[name]


def _five(name: str, errors: Sequence[float]) -> np.ndarray:
  if len(errors) != 5:
    raise InputError(f"{name} has errors for {len(errors)} severities; corruption errors need all 5")
  values = np.asarray(errors, np.float64)
  if not ((values >= 0) & (values <= 1)).all():
    raise InputError(f"errors of {name} must be fractions in [0, 1], got {values.min():g} … {values.max():g}")
  return values
