"""Every training config builds, and its small form trains."""

from __future__ import annotations

from pathlib import Path

import pytest

from jaxrobust.cli.configuration import load_config
from jaxrobust.core.errors import InputError
from jaxrobust.data.registry import DATASETS
from jaxrobust.models.registry import MODELS
from jaxrobust.training.config import make_train_config
from jaxrobust.training.loop import train

CONFIGS = Path(__file__).parents[2] / "configs"
CIFAR = ("standard", "fast-at", "pgd-at", "pgd-at-tuned", "half-at", "trades")


def config(file: str, arg: str):
  return load_config(f"{CONFIGS / file}:{arg}")


def architectures() -> tuple[str, ...]:
  namespace: dict = {}
  exec((CONFIGS / "robustart.py").read_text(), namespace)
  return namespace["ARCHITECTURES"]


def test_robustart_has_its_49_architectures_and_all_are_models():
  names = architectures()
  assert len(names) == len(set(names)) == 49
  assert not [name for name in names if name not in MODELS]


@pytest.mark.parametrize("arch", architectures())
@pytest.mark.parametrize("words", ["", ",half-at"])
def test_robustart_configs_build(arch, words):
  made = make_train_config(config("robustart.py", arch + words))
  made.plan()
  assert made.data in DATASETS
  assert (made.epochs, made.batch_size, made.schedule) == (100, 512, "cosine")
  assert (made.optimiser, made.weight_decay) in (("sgd", 1e-4), ("adamw", 0.05))


@pytest.mark.parametrize("arch", ["resnet50", "swin_base_patch4_window7_224", "convnext_base", "vgg16"])
def test_ares_bench_configs_build(arch):
  made = make_train_config(config("ares_bench.py", arch))
  plan = made.plan()
  assert arch in MODELS and made.data in DATASETS and plan.average.decay == 0.9998 and plan.objective.num_steps == 3
  assert plan.objective.eps == "4/255" and plan.objective.step_size == pytest.approx(2 / 3)


@pytest.mark.parametrize(
  "file, arg",
  [
    ("cifar10.py", "trades,runlocal"),
    ("ares_bench.py", "resnet50,runlocal"),
    *(pytest.param("cifar10.py", f"{name},runlocal", marks=pytest.mark.slow) for name in CIFAR if name != "trades"),
    pytest.param("robustart.py", "resnet18,half-at,runlocal", marks=pytest.mark.slow),
    pytest.param("robustart.py", "deit_tiny_patch16_224,runlocal", marks=pytest.mark.slow),
  ],
)
def test_small_forms_train(file, arg, tmp_path):
  assert (train(make_train_config(config(file, arg)), tmp_path / "net", quiet=True) / "classifier.json").exists()


@pytest.mark.parametrize("file, arg", [("cifar10.py", "pgd"), ("robustart.py", "resnet51"), ("ares_bench.py", "x,y")])
def test_unknown_arguments_are_one_line(file, arg):
  with pytest.raises(InputError, match="does not know"):
    config(file, arg)
