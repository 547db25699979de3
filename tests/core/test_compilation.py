"""Programs compiled by calls from Python are kept on disk; JAX's settings stay the user's."""

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from jaxrobust.core.compilation import count_compilations, kept_programs

DIR, SECONDS = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"


@pytest.fixture
def no_cache():
  """Nothing set, as in the process of a user."""
  before = {setting: getattr(jax.config, setting) for setting in (DIR, SECONDS)}
  for setting, value in ((DIR, None), (SECONDS, 1.0)):
    jax.config.update(setting, value)
  reset_cache()
  yield
  for setting, value in before.items():
    jax.config.update(setting, value)
  reset_cache()


def program(number):
  return jax.jit(lambda x: x * number + 17)


def test_programs_are_kept_and_settings_are_left_alone(no_cache, tmp_path, monkeypatch):
  folder = tmp_path / "cache"
  monkeypatch.setenv("JAXROBUST_CACHE", str(folder))
  program(2.25)(np.ones(3))  # Something of the user's, before: JAX has looked for a cache, and found none.
  with kept_programs():
    program(2.5)(np.ones(3))
  kept = sorted(folder.iterdir())
  assert kept and jax.config.jax_compilation_cache_dir is None
  assert jax.config.jax_persistent_cache_min_compile_time_secs == 1
  program(2.75)(np.ones(3))
  assert sorted(folder.iterdir()) == kept
  with count_compilations() as count, kept_programs():
    program(2.5)(np.ones(3))
  assert count.cache_hits == count.programs > 0


def test_a_cache_of_the_users_is_taken(no_cache, tmp_path, monkeypatch):
  monkeypatch.setenv("JAXROBUST_CACHE", str(tmp_path / "ours"))
  jax.config.update(DIR, str(tmp_path / "theirs"))
  with kept_programs():
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "theirs")
  assert jax.config.jax_compilation_cache_dir == str(tmp_path / "theirs") and not (tmp_path / "ours").exists()


@pytest.mark.parametrize("home", [True, False])
def test_no_folder_no_cache(no_cache, tmp_path, monkeypatch, home):
  (tmp_path / "file").write_text("")
  if home:
    monkeypatch.setenv("JAXROBUST_CACHE", str(tmp_path / "file" / "cache"))
  else:  # As in a container whose user has no entry.
    for name in ("JAXROBUST_CACHE", "XDG_CACHE_HOME"):
      monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
  with kept_programs():
    assert program(3.25)(1.0) == 20.25 and jax.config.jax_compilation_cache_dir is None
