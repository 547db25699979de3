"""Writes golden logits of reference networks: tests/golden/models/NAME.json, a few kilobytes each.

  python tests/golden/make_model_goldens.py [NAME…] [--checkouts DIR]

Needs torch, timm and torchvision, and for the networks of other repositories a folder with checkouts of
kuangliu/pytorch-cifar, huyvnphan/PyTorch_CIFAR10, RobustBench/robustbench, nmndeep/revisiting-at and
yitu-opensource/T2T-ViT, each under its own name, and Image-Classification of ViTAE-Transformer/ViTAE-Transformer as
ViTAE. Every network in the tables `references_*.py` is filled with the weights that `deterministic.py` draws from each
parameter's name and shape, and evaluated on the images it draws. The tests fill our network alike and compare; they
need none of this. Without names, the files that do not exist yet are written.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import sys

import deterministic
import numpy as np
import torch
from reference import Reference

HERE = pathlib.Path(__file__).parent
FOLDER = HERE / "models"


def references() -> dict[str, Reference]:
  """All tables beside this file."""
  tables = [importlib.import_module(path.stem) for path in sorted(HERE.glob("references_*.py"))]
  return {name: row for table in tables for name, row in table.REFERENCES.items()}


def build(row: Reference, checkouts: pathlib.Path) -> torch.nn.Module:
  """The untrained network, in evaluation mode."""
  library, _, name = row.source.partition(":")
  module, _, function = name.rpartition(".")
  if library == "timm":
    import timm

    return timm.create_model(name, pretrained=False, num_classes=row.classes, **row.options).eval()
  if library == "torchvision":
    import torchvision

    return getattr(torchvision.models, name)(weights=None, num_classes=row.classes, **row.options).eval()
  folder = checkouts / library
  if library != "python" and not folder.is_dir():
    raise SystemExit(f"{row.source} needs a checkout at {folder}")
  sys.path.insert(0, str(folder))
  try:
    return getattr(importlib.import_module(module), function)(**row.options).eval()
  finally:
    sys.path.remove(str(folder))
    # Another checkout may have a package of the same name.
    for loaded in [key for key in sys.modules if library != "python" and key.split(".")[0] == module.split(".")[0]]:
      del sys.modules[loaded]


def fill(network: torch.nn.Module, gain: float) -> dict[str, tuple[int, ...]]:
  """Replaces every weight and batch statistic; returns their names and shapes."""
  shapes = {}
  parameters = {name for name, _ in network.named_parameters()}
  for name, tensor in network.state_dict().items():
    if name in parameters or name.endswith(("running_mean", "running_var")):
      shapes[name] = tuple(tensor.shape)
      tensor.copy_(torch.from_numpy(deterministic.draw(name, shapes[name], gain)))
  return shapes


def golden(name: str, row: Reference, checkouts: pathlib.Path) -> dict:
  """The content of one golden file."""
  network = build(row, checkouts)
  row.edit(network)
  images = torch.from_numpy(deterministic.images(2, row.size).transpose(0, 3, 1, 2).copy())
  for gain in (row.gain, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5, 1.75, 2.0, 3.0, 0.5):
    with torch.no_grad():
      shapes = fill(network.float(), gain)
      logits = network(images).double().numpy()
      exact = network.double()(images.double()).numpy()
    spread, difference = exact.std(), np.abs(exact[0] - exact[1]).max()
    rounding = np.abs(logits - exact).max()
    # Logits that hardly depend on the image would prove little, and those that amplify rounding nothing.
    if 1e-3 < spread < 1e10 and difference > 0.03 * spread and rounding < 2e-4 * spread:
      break
  else:
    raise SystemExit(f"{name}: no gain gives sane logits (the last: {spread:.3g}, {difference:.3g}, {rounding:.3g})")
  step = max(1, row.classes // 50)
  return {
    "source": row.source,
    "size": row.size,
    "gain": gain,
    "classes": row.classes,
    "smallest": row.smallest,
    "params": sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad),
    "names": deterministic.names_hash(shapes),
    "std": float(f"{spread:.7g}"),
    "step": step,
    "logits": [[float(f"{value:.7g}") for value in logit] for logit in exact[:, ::step]],
  }


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("names", nargs="*")
  parser.add_argument("--checkouts", type=pathlib.Path, default=pathlib.Path("checkouts"))
  arguments = parser.parse_args()
  table = references()
  missing = [name for name in table if not (FOLDER / f"{name}.json").exists()]
  FOLDER.mkdir(exist_ok=True)
  for name in arguments.names or missing:
    content = golden(name, table[name], arguments.checkouts)
    (FOLDER / f"{name}.json").write_text(json.dumps(content) + "\n")
    print(f"{name:<28} {content['params']:>12,} parameters, logits' std {content['std']:.3g}", flush=True)


if __name__ == "__main__":
  main()
