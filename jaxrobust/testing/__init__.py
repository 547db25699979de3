"""Checks that every attack must pass, ours and yours alike: `check_attack(my_attack)`.

May import core, the leaves (models, attacks, noises, data, results) and the middle rooms. `checks` holds what is run
through the engine, `steps` what is asked of single steps, `fixtures` the tiny classifiers that all of it runs on.
"""

from jaxrobust.testing.checks import DEFAULT_EPS, check_attack
from jaxrobust.testing.fixtures import CLASSES, SHAPE, examples, fixture

__all__ = ["CLASSES", "DEFAULT_EPS", "SHAPE", "check_attack", "examples", "fixture"]
