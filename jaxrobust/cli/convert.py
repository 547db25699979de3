"""`jaxrobust convert CHECKPOINT --arch resnet50 --out models/resnet50 [--sha256=…] [--num_classes=…]`."""

from __future__ import annotations

from jaxrobust.cli.configuration import parse, split_words
from jaxrobust.core.errors import InputError
from jaxrobust.core.terminal import say

DEFAULTS = {
  "arch": "",
  "out": "",
  "num_classes": 0,
  "sha256": "",
  "key": "",
  "mean": "",
  "std": "",
  "size": 0,
  "check": "",
  "options": {},
}


def run(argv: list[str]) -> int:
  words, options = split_words(argv, DEFAULTS)
  config = parse("convert CHECKPOINT", options, DEFAULTS, "weights of a PyTorch checkpoint, as a classifier")
  if len(words) > 1:
    raise InputError(f"unexpected argument {words[1]!r}; one checkpoint is converted at a time")
  checkpoint = words[0] if words else ""
  for name, text in (("checkpoint", checkpoint), ("--arch", config.arch), ("--out", config.out)):
    if not text:
      raise InputError(f"no {name}; usage: jaxrobust convert CHECKPOINT --arch NAME --out DIR")
  from jaxrobust.models.weights.convert import convert_checkpoint

  done = convert_checkpoint(
    checkpoint,
    config.arch,
    config.out,
    num_classes=config.num_classes or None,
    sha256=config.sha256,
    key=config.key,
    mean=_numbers("mean", config.mean),
    std=_numbers("std", config.std),
    options=config.options.to_dict(),
    size=config.size or None,
    check=config.check,
  )
  for note in done.notes:
    say(note, error=note.startswith("WARNING"))
  mean, std = (", ".join(f"{value:.4g}" for value in values) for values in (done.mean, done.std))
  normalization = f"mean ({mean}) and std ({std}), {done.normalization}"
  say(f"{config.arch}: {done.params:,} parameters; {normalization}; saved in {done.folder}")
  return 0


def _numbers(name: str, text: str) -> tuple[float, ...] | None:
  """Reads comma-separated numbers, one per channel or one for all."""
  try:
    return tuple(float(part) for part in text.strip("()[] ").split(",")) if text else None
  except ValueError:
    raise InputError(f"--{name} takes numbers such as 0.485,0.456,0.406, got {text!r}") from None
