"""Suites: one file each, with the parts that are run and the metrics that are computed from their cells.

`make_suite` looks one up in `SUITES`; `clean_entry`, `attack_entry`, `entry_of` and `targeted` make what parts hold.
"""

from jaxrobust.evaluation.suites.entry import SuiteEntry, attack_entry, clean_entry, entry_of, targeted
from jaxrobust.evaluation.suites.suite import SUITES, Part, Setting, Suite, attack_set, make_suite

__all__ = [
  "SUITES",
  "Part",
  "Setting",
  "Suite",
  "SuiteEntry",
  "attack_entry",
  "attack_set",
  "clean_entry",
  "entry_of",
  "make_suite",
  "targeted",
]
