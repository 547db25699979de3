"""`jaxrobust data list|check|prepare [NAME] [--data_dir=DIR] [--decode]`."""

from __future__ import annotations

import numpy as np

from jaxrobust.cli.configuration import parse, split_words
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.terminal import say

DEFAULTS = {"data_dir": "", "decode": False, "out": "", "skip_bad": False}
USAGE = """what data sets are and whether they are complete
  list                 all data sets, and which are there
  check NAME           prints what is wrong with it and how to mend it; --decode opens every picture
  prepare NAME         writes its preprocessed images to one npz file (--out), leaving out bad ones with --skip_bad"""


def run(argv: list[str]) -> int:
  if not argv or argv[0] in ("-h", "--help"):
    parse("data", ["--help"], DEFAULTS, USAGE)
  action, *rest = argv
  if action not in ("list", "check", "prepare"):
    raise unknown_name("action", action, ["check", "list", "prepare"])
  names, options = split_words(rest, DEFAULTS)
  config = parse("data", options, DEFAULTS, USAGE)
  if action == "list":
    return _list(config.data_dir)
  if len(names) != 1:
    raise InputError(f"jaxrobust data {action} takes the name of one data set")
  return _check(names[0], config) if action == "check" else _prepare(names[0], config)


def _list(data_dir: str) -> int:
  from jaxrobust.data.catalogue import data_root
  from jaxrobust.data.registry import DATASETS

  try:
    root = data_root(data_dir)
  except InputError:
    root = None
  for name, entry in DATASETS.items():
    there = not entry.folder or (root is not None and (root / entry.folder).is_dir())
    print(f"{name:<20} {'there' if there else '-':<6} {entry.size:>6}  {entry.description}")
  return 0


def _check(name: str, config: object) -> int:
  from jaxrobust.data.check import describe, problems

  for key, value in describe(name):
    print(f"{key:<14} {value}")
  found = list(problems(name, config.data_dir or None, config.decode))  # type: ignore[attr-defined]
  for problem in found:
    say(f"problem        {problem}")
  print("complete" if not found else f"{len(found)} problem{'s' if len(found) > 1 else ''}")
  return 3 if found else 0


def _prepare(name: str, config: object) -> int:
  from jaxrobust.data.encoded import EncodedSource
  from jaxrobust.data.registry import load_data

  out = config.out  # type: ignore[attr-defined]
  if not out:
    raise InputError("prepare needs a file to write: --out=FILE.npz")
  source = load_data(name, config.data_dir or None)  # type: ignore[attr-defined]
  if isinstance(source, EncodedSource) and config.skip_bad:  # type: ignore[attr-defined]
    bad = list(source.bad_images())
    for example, reason in bad:
      say(f"left out example {example}: {reason}")
    source = source.without([example for example, _ in bad])
  first = source.take(np.zeros(1, int))[0]
  images = np.empty((len(source), *first.shape[1:]), np.uint8)
  labels = np.empty(len(source), np.int32)
  for start in range(0, len(source), 256):
    ids = np.arange(start, min(start + 256, len(source)))
    part, labels[ids] = source.take(ids)
    images[ids] = np.round(part * 255)
  np.savez(out, images=images, labels=labels, num_classes=source.num_classes)
  print(f"wrote {len(source)} images to {out}; read them as npz:{out}")
  return 0
