"""A profile of a few steps is written where it is asked for, and ended whatever happens."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxrobust.training.profiling import LEFT_OUT, RECORDED, Profile


def test_a_profile_holds_some_steps_after_the_first_ones(tmp_path):
  profile, on = Profile(tmp_path / "profile"), []
  for step in range(7, 20):
    profile.before(step)
    on.append(profile._on)
    profile.after(step, jnp.sin(step))
  assert on == [False] * LEFT_OUT + [True] * RECORDED + [False] * (13 - LEFT_OUT - RECORDED)
  assert list((tmp_path / "profile").rglob("*.xplane.pb"))


def test_a_short_run_ends_its_profile(tmp_path, monkeypatch):
  calls = []
  monkeypatch.setattr(jax.profiler, "start_trace", lambda folder: calls.append(folder))
  monkeypatch.setattr(jax.profiler, "stop_trace", lambda: calls.append("stopped"))
  profile = Profile(tmp_path)
  for step in range(LEFT_OUT + 1):
    profile.before(step)
  profile.close()
  profile.close()
  assert calls == [str(tmp_path), "stopped"]
