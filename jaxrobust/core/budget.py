"""Budgets, kept exactly as written, and the one tolerance with which a perturbation counts as inside one. No JAX here.

`8/255` and `0.031` are different budgets, and papers mix them up, so a budget is
stored as the text it was given in and turned into a float only when it is used.

Example:
  >>> eps = Budget.parse("8/255")
  >>> eps.text, round(eps.value, 5)
  ('8/255', 0.03137)
  >>> Budget.parse(0.5).text, round(Budget.parse("0.5/255").value, 5)
  ('0.5', 0.00196)

A number that Python made of `8 / 255` is written that way again:
  >>> Budget.parse(8 / 255).text, Budget.parse(0.5 / 255).text, Budget.parse(0.2).text
  ('8/255', '0.5/255', '0.2')
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name

# The one tolerance with which a perturbation counts as inside its ball: x + eps is rounded to
# float32 (an absolute error of up to 6e-8 on [0, 1]) and norms are float32 sums.
BALL_RTOL = 1e-5
BALL_ATOL = 1e-7

# No two images of a sensible size are this far apart in any norm.
LARGEST_BUDGET = 1e12
LONGEST_TEXT = 64
LARGEST_EXPONENT = 40


def rounding_tolerance(norm: str, size: int) -> float:
  """Returns how much rounding an image of `size` float32 pixels can add to the norm of a perturbation."""
  return BALL_ATOL * {"linf": 1.0, "l2": size**0.5, "l1": float(size)}[norm]


def inside(distance: Any, eps: Any, atol: float = BALL_ATOL) -> Any:
  """Returns whether a distance counts as within the budget; for scalars, NumPy and JAX arrays.

  >>> inside(8 / 255 + 1e-8, 8 / 255), inside(0.04, 8 / 255)
  (True, False)
  """
  return distance <= eps * (1 + BALL_RTOL) + atol


NORMS = ("l1", "l2", "linf")


@dataclass(frozen=True)
class Budget:
  """A perturbation size, exactly as written."""

  text: str

  @property
  def value(self) -> float:
    return float(_fraction(self.text))

  @classmethod
  def parse(cls, eps: str | float | Fraction | Budget, threat: str = "") -> Budget:
    """Reads `"8/255"`, `"0.5"`, numbers and fractions; raises InputError for what is not a size.

    Args:
      threat: what it is a budget of, where that is known: no two images are further apart than 1 in linf, so that 8
        there is a slip for 8/255.

    >>> Budget.parse(8, "linf")
    Traceback (most recent call last):
    jaxrobust.core.errors.InputError: eps 8 is more than 1, the largest linf distance of images; did you mean 8/255?
    """
    budget = eps if isinstance(eps, Budget) else cls._read(eps)
    if threat == "linf" and budget.value > 1:
      hint = f"; did you mean {budget.text}/255?" if budget.value <= 255 and "/" not in budget.text else ""
      raise InputError(f"eps {budget.text} is more than 1, the largest linf distance of images{hint}")
    return budget

  @classmethod
  def _read(cls, eps: str | float | Fraction) -> Budget:
    text = eps.strip().replace(" ", "") if isinstance(eps, str) else _number_text(eps)
    try:
      value = _fraction(text)
    except (ValueError, ZeroDivisionError):
      shown = ascii(eps) if len(text) <= LONGEST_TEXT else f"{text[:20]}… of {len(text)} characters"
      raise InputError(f"eps {shown} is not a number or a fraction such as 8/255") from None
    if value < 0:
      raise InputError(f"eps {text} is negative; a budget is at least 0")
    if value > LARGEST_BUDGET:
      raise InputError(f"eps {text} is larger than any distance between images; minimal attacks take no eps at all")
    return cls(text)

  def times(self, factor: str) -> Budget:
    """Returns a multiple of a budget, written as such: 1/2 of 4/255 is 2/255.

    >>> Budget("4/255").times("1/8").text, Budget("0.5").times("3/2").text
    ('0.5/255', '0.75')
    """
    top, slash, bottom = self.text.partition("/")
    return Budget.parse(f"{float(_fraction(top) * _fraction(factor)):g}{slash}{bottom}")


def _fraction(text: str) -> Fraction:
  """Reads `8/255`, `0.5/255` and `1e-3` alike; Fraction itself takes no decimals in a ratio."""
  parts = text.split("/")
  exponents = [part.lower().partition("e")[2] for part in parts]
  # A few characters of exponent are a number of a billion digits.
  if len(parts) > 2 or len(text) > LONGEST_TEXT or any(abs(int(e)) > LARGEST_EXPONENT for e in exponents if e):
    raise ValueError(text)
  return Fraction(parts[0]) / Fraction(parts[1]) if len(parts) == 2 else Fraction(text)


def _number_text(eps: float | Fraction) -> str:
  if isinstance(eps, (int, Fraction)):
    return str(eps)
  try:
    value = float(eps)
  except (TypeError, ValueError):
    raise InputError(f"eps {eps!r} is not a number or a fraction such as 8/255") from None
  if not math.isfinite(value):
    raise InputError(f"eps {value} is not a finite number; minimal attacks take no eps at all")
  # repr is the shortest text that reads back as the same number; a division by 255 has a shorter one that people know.
  levels = f"{round(value * 255, 3):g}/255"
  divided = abs(value) < 255 and len(levels) < len(repr(value)) and float(_fraction(levels)) == value
  return levels if divided else repr(value)


def check_norm(norm: str, allowed: tuple[str, ...] = NORMS) -> str:
  """Returns `norm` if it is one of `allowed`, and names the nearest ones if not."""
  if norm not in allowed:
    raise unknown_name("norm", str(norm), list(allowed))
  return norm
