"""Accuracy under attack, and what the papers make of it. Arguments are flags per example, never averages.

accuracy under attack  right before and after the attack, of all examples
attack success rate    of those right before: broken (ASR; RobustART, ARES); or of all examples: wrong after the
                       attack, which is 1 - accuracy under attack (the other definition in use)
AR                     1 - ASR (RobustART, arXiv:2109.05211, appendix D)
WCAR                   the share, of those right before, that no attack breaks: pointwise, not the minimum of averages
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from jaxrobust.core.errors import InputError


def accuracy_under_attack(robust: np.ndarray) -> float:
  """Returns the share of all that is right before and after the attack.

  >>> accuracy_under_attack(np.array([1, 0, 0, 1]))
  0.5
  """
  return float(_flags(robust)[0].mean())


def attack_success_rate(correct: np.ndarray, robust: np.ndarray, of_all: bool = False) -> float:
  """Returns the broken share of those right before the attack; with `of_all` the wrong share of all after it.

  >>> correct, robust = np.array([1, 1, 1, 0]), np.array([1, 1, 0, 0])
  >>> round(attack_success_rate(correct, robust), 3), attack_success_rate(correct, robust, of_all=True)
  (0.333, 0.5)
  """
  correct, robust = _flags(correct, robust)
  if of_all:
    return float(1 - robust.mean())
  return 1 - adversarial_robustness(correct, robust)


def success_among_both(examples: Mapping[str, np.ndarray]) -> float:
  """Returns how often images made on another network break what both have right, as RobustART's script counts it.

  NaN where there is no such example, or where a cell does not say what the other network had right.

  >>> flags = {"correct": np.array([1, 1, 1, 0]), "robust": np.array([1, 0, 0, 0])}
  >>> success_among_both(flags), success_among_both({**flags, "source_correct": np.array([1, 1, 0, 1])})
  (nan, 0.5)
  """
  both = np.asarray(examples["correct"], bool) & np.asarray(examples.get("source_correct", False), bool)
  return attack_success_rate(both, both & np.asarray(examples["robust"], bool)) if both.any() else float("nan")


def transferred_success_rate(examples: Mapping[str, np.ndarray], targeted: bool, after: int | None = None) -> float:
  """Returns how often images made on another network succeed, counted as ARES does (arXiv:1912.11852, Eq. 4).

  Untargeted ones are counted over the examples right before, targeted ones (is the target predicted?) over all.

  Args:
    examples: of a transfer cell.
    targeted: whether each image had a target.
    after: so many steps; all of them by default.

  Returns:
    NaN where nothing was right before, or where a cell does not say what was reached.

  >>> flags = {"correct": np.array([1, 1, 1, 0]), "robust": np.array([1, 1, 0, 0]), "reached": np.array([0, 0, 1, 1])}
  >>> round(transferred_success_rate(flags, False), 3), transferred_success_rate(flags, True)
  (0.333, 0.5)
  """
  name = ("reached" if targeted else "robust") + ("" if after is None else f"_after@{after}")
  if name not in examples or not (targeted or examples["correct"].any()):
    return float("nan")
  return float(examples[name].mean()) if targeted else attack_success_rate(examples["correct"], examples[name])


def adversarial_robustness(correct: np.ndarray, robust: np.ndarray) -> float:
  """Returns AR: those still right after the attack, of those right before; 0 where none was."""
  return worst_case_attack_robustness(correct, [robust])


def worst_case(robust: Sequence[np.ndarray]) -> np.ndarray:
  """Tells which examples withstand every attack.

  >>> worst_case([np.array([1, 1, 0]), np.array([1, 0, 1])]).tolist()
  [True, False, False]
  """
  if not robust:
    raise InputError("the worst case is taken over at least one attack")
  return np.logical_and.reduce(_flags(*robust))


def worst_case_attack_robustness(correct: np.ndarray, robust: Sequence[np.ndarray]) -> float:
  """Returns WCAR over attacks, pointwise.

  >>> worst_case_attack_robustness(np.array([1, 1, 1, 0]), [np.array([1, 1, 0, 0]), np.array([0, 1, 1, 0])])
  0.3333333333333333
  """
  correct, standing = _flags(correct, worst_case(robust))
  return float((correct & standing).sum() / max(correct.sum(), 1))


def _flags(*arrays: np.ndarray) -> list[np.ndarray]:
  flags = [np.asarray(array, bool) for array in arrays]
  if any(array.ndim != 1 or array.shape != flags[0].shape or array.size == 0 for array in flags):
    raise InputError(f"attack metrics need one flag per example, got shapes {[array.shape for array in flags]}")
  return flags
