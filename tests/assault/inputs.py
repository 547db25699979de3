"""Hostile and damaged inputs of every reader, made from a seed: `make(kind, folder, number, seed)` writes one."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import random
import struct
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

from tests.assault import weights
from tests.fuzz import HOSTILE, mutated

_TEXTS = [*HOSTILE, "\x1b[2J", "=cmd|'/c calc'!A0", "1e999999999", "9" * 400, "[" * 100_000, "{}", "null", "NaN"]


def _weights(path: Path, chance: np.random.Generator, number: int) -> Path:
  special = {**_BOMBS, **weights.executing(str(path.parent / "executed"))}
  good = list(weights.good().values())
  data = list(special.values())[number] if number < len(special) else weights.damaged(good[number % len(good)], chance)
  path.write_bytes(data)
  return path


_BOMBS = weights.bombs()


def _npz(path: Path, chance: np.random.Generator, number: int) -> Path:
  bombs = [data.replace(b"a.npy", b"x.npy") for name, data in _BOMBS.items() if name.startswith("npz-")]
  buffer = io.BytesIO()
  images = chance.integers(0, 256, (3, 4, 4, 3)).astype(np.uint8)
  np.savez_compressed(buffer, images=images, labels=np.arange(3))
  data = bombs[number] if number < len(bombs) else weights.damaged(buffer.getvalue(), chance)
  path.write_bytes(data)
  return path


def _picture(path: Path, chance: np.random.Generator, number: int) -> Path:
  folder = path / "class"
  folder.mkdir(parents=True)
  kind = ("PNG", "JPEG", "BMP", "WEBP", "GIF", "TIFF")[number % 6]
  shape, dtype = [((20, 20, 3), np.uint8), ((20, 20, 4), np.uint8), ((20, 20), np.uint16)][int(chance.integers(0, 3))]
  picture = Image.fromarray(chance.integers(0, np.iinfo(dtype).max, shape).astype(dtype))
  if dtype is np.uint16 and kind not in ("PNG", "TIFF"):
    picture = picture.convert("L")
  if picture.mode == "RGBA" and kind in ("JPEG", "BMP"):
    picture = picture.convert("RGB")
  buffer = io.BytesIO()
  picture.save(buffer, kind)
  data = buffer.getvalue() if number % 5 == 0 else weights.damaged(buffer.getvalue(), chance)
  if number % 7 == 0 and kind == "PNG":  # A header that claims any size.
    data = data[:16] + struct.pack(">II", *chance.integers(1, 2**31, 2).tolist()) + data[24:]
  (folder / f"x.{['jpg', 'png', 'bmp'][number % 3]}").write_bytes(data)
  if number % 11 == 0:
    os.symlink(["/dev/zero", "nowhere", "/etc/hostname"][number % 3], folder / "link.png")
  if number % 13 == 0:
    os.mkfifo(folder / "fifo.png")
  return path


def _batch(path: Path, chance: np.random.Generator, number: int) -> Path:
  rows = chance.integers(0, 256, (3, 3072)).astype(np.uint8)
  good = pickle.dumps({b"data": rows, b"labels": [0, 1, 2]}, 2)
  code = [value.split(b"data.pkl")[1] for value in weights.executing(str(path.parent / "executed")).values()]
  path.write_bytes(code[number] if number < len(code) else weights.damaged(good, chance))
  return path


def _idx(path: Path, chance: np.random.Generator, number: int) -> Path:
  good = struct.pack(">HBBIII", 0, 8, 3, 2, 5, 5) + bytes(50)
  data = weights.damaged(good, chance)
  if number % 4 == 0:
    data = weights.damaged(gzip.compress(good), chance)
  elif number % 4 == 1:
    data = gzip.compress(bytes(2**27), 9)
  Path(f"{path}{'.gz' if number % 4 < 2 else ''}").write_bytes(data)
  return path


def _metadata(path: Path, chance: np.random.Generator, number: int) -> Path:
  path.mkdir()
  good = {"arch": "cnn-tiny", "num_classes": 4, "mean": 0.0, "std": 1.0, "options": {}, "notes": {}}
  text = json.dumps(mutated(good, random.Random(number))).encode()
  if number % 3 == 0:
    text = weights.damaged(text, chance)
  elif number % 3 == 1 and number < len(_TEXTS):
    text = _TEXTS[number].encode("utf-8", "surrogatepass")
  (path / "classifier.json").write_bytes(text)
  (path / "weights.npz").write_bytes(list(_BOMBS.values())[number % len(_BOMBS)])
  return path


def _cell(path: Path, chance: np.random.Generator, number: int) -> Path:
  from tests.report.test_fuzz import base

  path.mkdir()
  document = base(chance)
  document["cell"]["eps"] = ["8/255", "1e999999999", "1e-99999999", _TEXTS[number % len(_TEXTS)]][number % 4]
  document["cell"]["model"] = _TEXTS[number % len(_TEXTS)]
  text = json.dumps(mutated(document, random.Random(number))).encode()
  (path / "x.n6.seed0.json").write_bytes(text if number % 3 else weights.damaged(text, chance))
  (path / "x.n6.seed0.images.npz").write_bytes(list(_BOMBS.values())[number % len(_BOMBS)])
  return path


def _table(path: Path, chance: np.random.Generator, number: int) -> Path:
  text = "Method,Arch.,acc,rob\n" + "".join(f"{_TEXTS[int(chance.integers(0, 11))]},a,{at},0.5\n" for at in range(4))
  path.write_bytes(weights.damaged(text.encode("utf-8", "surrogatepass"), chance))
  return path


def _budget(path: Path, chance: np.random.Generator, number: int) -> Path:
  letters = "0123456789eE+-./ _nainf\x1b\u0663"
  text = "".join(letters[int(i)] for i in chance.integers(0, len(letters), int(chance.integers(1, 30))))
  path.write_text(_TEXTS[number].replace("\ud800", "") if number < len(_TEXTS) else text)
  return path


def _archive(path: Path, chance: np.random.Generator, number: int) -> Path:
  picture, file = io.BytesIO(), io.BytesIO()
  Image.fromarray(chance.integers(0, 256, (20, 20, 3)).astype(np.uint8)).save(picture, "PNG")
  with tarfile.open(fileobj=file, mode="w") as archive:
    for name in ("a/x.png", "../../outside.png", "b/y.png"):
      entry = tarfile.TarInfo(name)
      entry.size = len(picture.getvalue()) if number % 5 else [2**40, 2**62, 0][number % 3]
      archive.addfile(entry, io.BytesIO(picture.getvalue().ljust(1024)) if number % 5 else None)
  path.write_bytes(weights.damaged(file.getvalue(), chance))
  return path


def _exchange(path: Path, chance: np.random.Generator, number: int) -> Path:
  from tests.results.test_exchange import NAS, OODRB, ROBUSTBENCH, write

  files = {"one/robustbench.json": ROBUSTBENCH, "one/oodrobustbench.json": OODRB, **NAS}
  files = mutated(files, random.Random(number))
  name = list(files)[number % len(files)]
  write(path, {each: value for each, value in files.items() if each.isprintable() and 0 < len(each) < 200})
  if (path / name).is_file() and number % 3 == 0:
    (path / name).write_bytes(weights.damaged((path / name).read_bytes(), chance))
  return path


def _log(path: Path, chance: np.random.Generator, number: int) -> Path:
  lines = [json.dumps(mutated({"step": at, "loss": 0.5}, random.Random(number + at))) for at in range(4)]
  text = "\n".join([*lines, _TEXTS[number % len(_TEXTS)]]).encode("utf-8", "surrogatepass")
  path.write_bytes(text if number % 2 else weights.damaged(text, chance))
  return path


def _partial(path: Path, chance: np.random.Generator, number: int) -> Path:
  from jaxrobust.results.partial import partial_path, save_partial

  save_partial(path, {"a": 1}, {"robust": np.ones(5, bool)}, {"decided": 3})
  bombs = list(_BOMBS.values())
  good = partial_path(path).read_bytes()
  partial_path(path).write_bytes(bombs[number] if number < len(bombs) else weights.damaged(good, chance))
  return path


def _study(path: Path, chance: np.random.Generator, number: int) -> Path:
  folder = path / "results" / "m"
  folder.mkdir(parents=True)
  judging = {"data": "d", "norm": "linf", "eps": "8/255", "corruptions": ["fog"], "severities": [1], "suite": "basic"}
  run = {"name": "m", "group": "g", "against": "", "judged": True}
  index = {"study": "s", "judging": judging, "runs": [run, dict(run, group="h", against="g")]}
  summary = {"suite": "basic", "metrics": {"accuracy": 0.5, "rest": {"value": 0.5, "of": 3}}}
  row = {"program": "p", "arch": "a", "dtype": "float32", "precision": "highest", "slice": "v5e:2x2", "rows": 8}
  files = {path / "study.json": index, folder / "x.summary.json": summary, path / "programs.jsonl": row}
  for at, (file, value) in enumerate(files.items()):
    hurt = number % 3 == at
    text = json.dumps(mutated(value, random.Random(number)) if hurt else value).encode()
    file.write_bytes(weights.damaged(text, chance) if hurt and number % 2 else text)
  return path


MAKERS = {
  "weights": _weights,
  "npz": _npz,
  "picture": _picture,
  "cifar": _batch,
  "idx": _idx,
  "classifier": _metadata,
  "archive": _archive,
  "cell": _cell,
  "partial": _partial,
  "exchange": _exchange,
  "log": _log,
  "study": _study,
  "table": _table,
  "budget": _budget,
}


def make(kind: str, folder: Path, number: int, seed: int) -> Path:
  """Writes one input and returns its path."""
  chance = np.random.default_rng([seed, number, sorted(MAKERS).index(kind)])
  return MAKERS[kind](folder / f"{kind}-{number:05d}", chance, number)
