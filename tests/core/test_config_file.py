"""Configs by path and by name: what lies at the path first, then what comes with the package."""

from __future__ import annotations

import pytest

from jaxrobust.core.config_file import find_config, load_config, shipped_configs
from jaxrobust.core.errors import InputError, UnknownNameError

pytestmark = pytest.mark.smoke


@pytest.mark.parametrize("path", ["cifar10:pgd-at", "configs/cifar10.py:pgd-at"])
def test_the_configs_of_the_package_are_found_in_an_empty_folder(path, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  assert load_config(path).techniques == ("pad-crop-flip", "pgd-at", "ema")


def test_a_file_of_the_user_comes_first(tmp_path, monkeypatch):
  (tmp_path / "configs").mkdir()
  (tmp_path / "configs" / "cifar10.py").write_text(
    "from ml_collections import ConfigDict\ndef get_config(arg=None):\n  return ConfigDict({'mine': arg})\n"
  )
  monkeypatch.chdir(tmp_path)
  assert load_config("configs/cifar10.py:a").mine == "a"
  assert load_config("cifar10").arch == "resnet20"


def test_unknown_ones_are_refused_with_what_is_there():
  with pytest.raises(UnknownNameError, match="unknown config 'cifer10'; did you mean 'cifar10'"):
    find_config("cifer10:pgd-at")
  with pytest.raises(InputError, match="those of the package are ares_bench, cifar10"):
    find_config("configs/mine.py")


def test_every_config_of_the_folder_has_a_name():
  assert {"cifar10", "local", "studies"} <= set(shipped_configs()) and "__init__" not in shipped_configs()
