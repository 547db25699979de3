"""Meshes that fit a number of rows."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from jaxrobust.core import mesh


@pytest.mark.parametrize(
  ("platform", "rows", "devices", "used"),
  [("cpu", 128, 8, 8), ("cpu", 12, 8, 6), ("cpu", 7, 4, 1), ("cpu", 7, 8, 7), ("cpu", 1, 2, 1), ("tpu", 7, 4, 4)],
)
def test_cores_may_idle_but_accelerators_may_not(monkeypatch, platform, rows, devices, used):
  monkeypatch.setattr(mesh, "make_mesh", len)
  assert mesh.fitting_mesh(rows, [SimpleNamespace(platform=platform)] * devices) == used
