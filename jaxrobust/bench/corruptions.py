"""Corruptions against PyPI's `imagecorruptions`, in one run, with the severity table both have.

  jaxrobust bench corruptions --peer_python=PYTHON [--sizes=224,32] [--only=glass]

Rows are images per second over all five severities of a corruption, and of the fifteen of the benchmark together
(the time of every one of them, summed). Ours and theirs take turns; each keeps its best time per image.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.bench.peers import Peers
from jaxrobust.bench.rows import Row, chosen
from jaxrobust.noises.registry import NOISES, SEVERITIES, make_noise
from jaxrobust.noises.tables import BENCHMARK

WORKER = Path(__file__).with_name("corruption_worker.py")


def run(peer_python: str = "", sizes: str = "224,32", only: str = "", repeats: int = 2) -> Iterator[Row]:
  """Yields a row per corruption and size, and the sum over the benchmark's fifteen."""
  names = chosen(NOISES, only)
  with tempfile.TemporaryDirectory() as folder, Peers(peer_python, Path(folder), WORKER) as peers:
    for size in (int(part) for part in sizes.split(",")):
      images = _images(64 if size < 96 else 16, size)
      path = Path(folder) / f"{size}.npy"
      np.save(path, images)
      yield from _contest(names, images, path, peers, repeats)


def _images(n: int, size: int) -> np.ndarray:
  """Returns smooth random pictures with some grain."""
  rng = np.random.default_rng(0)
  coarse = rng.random((n, 8, 8, 3)).repeat(-(-size // 8), 1).repeat(-(-size // 8), 2)[:, :size, :size]
  return (np.clip(coarse + 0.05 * rng.standard_normal(coarse.shape), 0, 1) * 255).astype(np.uint8)


def _contest(names: list[str], images: np.ndarray, path: Path, peers: Peers, repeats: int) -> Iterator[Row]:
  size = images.shape[1]
  total, peer_total = 0.0, 0.0
  peer: dict[str, Any] = {"missing": "not asked"}
  for name in names:
    ours, theirs = float("inf"), float("inf")
    _ours(name, images)  # Compiles.
    for _ in range(repeats):
      ours = min(ours, _ours(name, images))
      # One picture is enough for the loop over pixels.
      peer = peers.ask(corruption=name, images=str(path), n=1 if name == "glass_blur" else 2)
      theirs = min(theirs, peer.get("seconds", float("inf")))
    yield _row(f"{size}px, {name}", ours, theirs, peer)
    if name in BENCHMARK:
      total, peer_total = total + ours, peer_total + theirs
  if set(BENCHMARK) <= set(names):
    yield _row(f"{size}px, the fifteen together", total / len(BENCHMARK), peer_total / len(BENCHMARK), peer)


def _ours(name: str, images: np.ndarray) -> float:
  """Returns the seconds per image for all five severities, host copies included."""
  floats, ids = images.astype(np.float32) / 255, np.arange(len(images))
  begin = time.perf_counter()
  for severity in range(1, SEVERITIES + 1):
    make_noise(name, severity).batch(floats, 0, ids)
  return (time.perf_counter() - begin) / len(images)


def _row(name: str, ours: float, theirs: float, peer: dict) -> Row:
  known = np.isfinite(theirs)
  label = peer.get("peer", f"imagecorruptions: {peer.get('missing')}")
  return Row(name, SEVERITIES / ours, "images/s", label, peer.get("version"), theirs / ours if known else None)
