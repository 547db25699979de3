"""Configs for commands: a file, its argument, and overrides.

  jaxrobust COMMAND --config configs/digits.py:robust --config.eps=4/255 --n=100

A command has defaults; a config file is a Python module with `get_config(arg=None) -> ConfigDict` that
replaces some of them; `--config.key=value` (for top-level keys also `--key=value`) replaces single ones.
"""

from __future__ import annotations

import ast
import copy
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ml_collections import ConfigDict

from jaxrobust.cli.options import meaning
from jaxrobust.core.config_file import load_config
from jaxrobust.core.errors import InputError
from jaxrobust.core.keys import check_seed
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.spelling import current_keys, current_name

_OPEN = ("options", "arch_options")

Load = Callable[[str, dict[str, str]], ConfigDict]
"""(path, overrides as texts) -> config."""


def command_line(command: str, config: ConfigDict, defaults: dict[str, Any], free: Sequence[str], **more: Any) -> str:
  """Returns the command that asks for this config again: what differs from the defaults, but not what `free` names."""
  asked = {key: config[key] for key in defaults if key not in free and config[key] != defaults[key]} | more
  return shlex.join(["jaxrobust", command, *(f"--{key}={value}" for key, value in asked.items())])


def parse(command: str, argv: list[str], defaults: dict[str, Any], usage: str, load: Load | None = None) -> ConfigDict:
  """Returns the config of a command, from its defaults, an optional config file (read by `load`) and overrides."""
  if any(word in ("-h", "--help") for word in argv):
    print(_help(command, defaults, usage))
    raise SystemExit(0)
  config = ConfigDict(copy.deepcopy(defaults))
  path, rest = _config_file(argv)
  overrides = list(_overrides(rest, config))
  if path is not None:
    _merge(config, load(path, dict(overrides)) if load else load_config(path), path)
  for name, value in overrides:
    set_option(config, name, value)
  if "seed" in config:
    check_seed(config.seed)
  return config


def check_model(model: str) -> None:
  """Refuses a command without a classifier."""
  if not model:
    raise InputError("no model; pass --model=FOLDER of a trained classifier, or --model=NAME of `jaxrobust list zoo`")


def attack_options(config: ConfigDict) -> dict[str, Any]:
  """Returns the parameters of an attack, with its perceptual threat, which a command line names, as a value."""
  options: dict[str, Any] = config.options.to_dict()
  if isinstance(options.get("threat"), str):
    from jaxrobust.models.perceptual import make_threat

    options["threat"] = make_threat(options["threat"])
  return options


def split_words(argv: list[str], defaults: dict[str, Any]) -> tuple[list[str], list[str]]:
  """Returns the words that a command is about, wherever they stand, and its options with their values.

  >>> split_words(["check", "--out", "images.npz", "--decode", "digits"], {"out": "", "decode": False})
  (['check', 'digits'], ['--out', 'images.npz', '--decode'])
  """
  words: list[str] = []
  options: list[str] = []
  waiting = list(argv)
  while waiting:
    word = waiting.pop(0)
    (options if word.startswith("-") else words).append(word)
    alone = "=" in word or isinstance(defaults.get(word[2:].removeprefix("config.")), bool)
    if word.startswith("--") and not alone and waiting and not waiting[0].startswith("--"):
      options.append(waiting.pop(0))
  return words, options


def set_option(config: ConfigDict, name: str, text: str) -> None:
  """Sets one dotted key from text, read as the type the key has.

  >>> config = ConfigDict({"n": 5, "deep": {"rate": 0.5}})
  >>> set_option(config, "deep.rate", "1e-3"); config.deep.rate
  0.001
  """
  node, path = config, name.split(".")
  # Who takes them refuses what it does not know: an attack, a technique, an architecture.
  open_ended = path[0] in _OPEN and path[0] in config and len(path) > 1
  for key in path[:-1]:
    key = _known_key(node, key)
    if key not in node and open_ended:
      with node.unlocked():
        node[key] = ConfigDict()
    if key not in node or not isinstance(node[key], ConfigDict):
      raise unknown_name("option", name, sorted(node))
    node = node[key]
  key = _known_key(node, path[-1])
  if key in node:
    node[key] = _typed(name, text, node[key])
  elif open_ended:
    with node.unlocked():
      node[key] = _literal(text)
  else:
    raise unknown_name("option", name, sorted(node))


def _known_key(node: ConfigDict, key: str) -> str:
  """Returns the key, in its current spelling where the config has that one alone."""
  return current_name(key) if key not in node and current_name(key) in node else key


def _literal(text: str) -> Any:
  if text.lower() in ("true", "false"):
    return text.lower() == "true"
  try:
    return ast.literal_eval(text)
  except (ValueError, SyntaxError):
    return text


def _typed(name: str, text: str, old: Any) -> Any:
  if isinstance(old, str):
    return text
  value = _literal(text)
  if isinstance(old, float) and isinstance(value, int) and not isinstance(value, bool):
    return float(value)
  if isinstance(old, tuple):
    # `a,b` and `['a', 'b']` are the names that `('a', 'b')` is.
    return tuple(value) if isinstance(value, list | tuple) else tuple(text.split(",")) if text else ()
  if isinstance(old, ConfigDict) and isinstance(value, dict):
    return ConfigDict(value)
  if old is not None and type(value) is not type(old):
    raise InputError(f"option {name} takes {type(old).__name__}, got {text!r}")
  return value


def _config_file(argv: list[str]) -> tuple[str | None, list[str]]:
  rest, path = [], None
  words = iter(argv)
  for word in words:
    if word == "--config":
      path = next(words, None)
      if path is None:
        raise InputError("--config needs a file")
    elif word.startswith("--config="):
      path = word.split("=", 1)[1]
    else:
      rest.append(word)
  return path, rest


def _merge(config: ConfigDict, loaded: ConfigDict, path: str) -> None:
  loaded = ConfigDict(current_keys(loaded))
  for key in loaded:
    if key not in config:
      raise unknown_name(f"key in {path}", key, sorted(config))
    number = isinstance(config[key], float) and type(loaded[key]) is int
    if type(loaded[key]) is not type(config[key]) and not number:
      raise InputError(f"{path}: {key} takes {type(config[key]).__name__}, got {loaded[key]!r}")
  with config.unlocked():
    config.update(loaded)


def _overrides(words: list[str], config: ConfigDict) -> Iterator[tuple[str, str]]:
  """Yields (key, text) of each `--key=value`, `--key value` or `--flag`."""
  waiting = list(words)
  while waiting:
    word = waiting.pop(0)
    if not word.startswith("--"):
      raise InputError(f"unexpected argument {word!r}; options are written --name=value")
    name, separator, text = word[2:].removeprefix("config.").partition("=")
    if not separator:
      if isinstance(config.get(name), bool):
        text = "true"
      elif waiting and not waiting[0].startswith("--"):
        text = waiting.pop(0)
      elif name in config:
        raise InputError(f"option --{name} needs a value")
    yield name, text


def _help(command: str, defaults: dict[str, Any], usage: str) -> str:
  shown = {key: _as_option(key, value) for key, value in defaults.items()}
  width = max(map(len, shown.values()))
  rows = "\n".join(f"  {text:<{width}}  {meaning(command, key)}" for key, text in shown.items())
  return f"jaxrobust {command}: {usage}\n\nOptions and defaults (or --config FILE.py[:ARG] --config.key=value):\n{rows}"


def _as_option(key: str, value: Any) -> str:
  """Returns an option as it is written on a command line."""
  if isinstance(value, dict | ConfigDict):
    return f"--{key}.KEY=VALUE"
  return f"--{key}={str(value).lower() if isinstance(value, bool) else value}"
