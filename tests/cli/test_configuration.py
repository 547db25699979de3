"""Overrides on the command line reach options that no config file has named."""

import pytest
from ml_collections import ConfigDict

from jaxrobust.cli.configuration import parse

pytestmark = pytest.mark.smoke


@pytest.mark.parametrize(
  ("word", "read"),
  [
    ("--options.pgd-at.eps=4/255", lambda config: config.options["pgd-at"].eps == "4/255"),
    ("--options.pgd-at.num_steps=3", lambda config: config.options["pgd-at"].num_steps == 3),
    ("--arch_options.drop_rate=0.1", lambda config: config.arch_options.drop_rate == 0.1),
    ("--arch_options={'drop_rate': 0.1}", lambda config: config.arch_options.drop_rate == 0.1),
    ("--techniques=pgd-at", lambda config: config.techniques == ("pgd-at",)),
    ("--techniques=flip,ema", lambda config: config.techniques == ("flip", "ema")),
    ("--techniques=['flip', 'ema']", lambda config: config.techniques == ("flip", "ema")),
    ("--techniques=", lambda config: config.techniques == ()),
  ],
)
def test_options_of_techniques_and_architectures_are_set_by_a_word(word, read):
  defaults = {"techniques": ("flip",), "options": ConfigDict(), "arch_options": ConfigDict()}
  assert read(parse("train", [word], defaults, ""))
