"""`make_attack` with a signature for every name: see `overloads`, which writes the stub of this module."""

from jaxrobust.attacks.registry import make_attack as make_attack
