"""When to judge points before their gradient is computed: by how many succeeded lately.

A look costs a forward pass (f), and saves the gradient step (g, about 3 f) and the verification of those points that
succeed: worth it where more than f / (f + g) of them do.
"""

from __future__ import annotations

from dataclasses import dataclass

WORTH_ABOVE = 0.3
# Looks after which the observed rate is forgotten by half.
MEMORY = 256


@dataclass
class SuccessRate:
  """Points looked at after a move, and how many of them were successes; the recent past counts most.

  >>> rate = SuccessRate()
  >>> rate.worth_a_look
  False
  >>> rate.add(looks=10, hits=5)
  >>> rate.worth_a_look
  True
  """

  looks: float = 0.0
  hits: float = 0.0

  @property
  def worth_a_look(self) -> bool:
    return self.hits > WORTH_ABOVE * self.looks

  def add(self, looks: int, hits: int) -> None:
    self.looks += looks
    self.hits += hits
    if self.looks > MEMORY:
      self.looks /= 2
      self.hits /= 2
