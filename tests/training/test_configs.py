"""Every training config builds, and its small form trains."""

from __future__ import annotations

from pathlib import Path

import pytest

from jaxrobust.core.config_file import load_config
from jaxrobust.core.errors import InputError
from jaxrobust.data.registry import DATASETS
from jaxrobust.evaluation.studies.runs import study_runs
from jaxrobust.models.registry import MODELS, make_model
from jaxrobust.models.weights.portable import shipped
from jaxrobust.training.config import make_train_config
from jaxrobust.training.loop import train
from jaxrobust.training.pretraining.backbone import wrapped
from jaxrobust.training.technique import Objective

CONFIGS = Path(__file__).parents[2] / "configs"
PRETRAINED = ("moco-v2", "moco-v3", "mae", "simmim", "acl", "imagenet21k")
MORE = ("moco-v3-resnet50",)
STUDIES = {
  "robustart-techniques": 65,
  "ares-bench-table7": 15,
  "oodrb": 300,
  "oodrb-l2": 220,
  "oodrb-released": 300,
  "oodrb-l2-released": 220,
  "digits-techniques": 174,
  "cifar10-zoo": 26,
  "cifar10-zoo-published": 38,
}
CIFAR = ("standard", "fast-at", "fast-at-tuned", "pgd-at", "pgd-at-tuned", "awp", "half-at", "trades")


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
  assert (made.optimizer, made.weight_decay) in (("sgd", 1e-4), ("adamw", 0.05))


@pytest.mark.parametrize("arch", ["resnet50", "swin_base_patch4_window7_224", "convnext_base", "vgg16"])
def test_ares_bench_configs_build(arch):
  made = make_train_config(config("ares_bench.py", arch))
  plan = made.plan()
  assert arch in MODELS and made.data in DATASETS and plan.average.decay == 0.9998 and plan.objective.num_steps == 3
  assert plan.objective.eps == "4/255" and plan.objective.step_size == pytest.approx(2 / 3)


def test_recipes_follow_the_authors_files_where_text_and_files_differ():
  made = lambda file, arg: make_train_config(config(file, arg))
  cnn, vit = made("robustart.py", "resnet50"), made("robustart.py", "vit_base_patch16_224")
  assert (cnn.first_rate, cnn.learning_rate, cnn.last_rate, cnn.warmup_epochs) == (0.1, 0.4, 0.0, 2.0)
  assert (vit.first_rate, vit.learning_rate, vit.last_rate, vit.clip) == (1e-5, 5e-4, 1e-5, 0.0)
  assert not cnn.preprocess and "crop380" in made("robustart.py", "efficientnet_b4").preprocess
  assert made("robustart.py", "resnet50,half-at").plan().objective.together
  table6 = made("robustart.py", "deit_small_patch16_224,half-at-deit")
  assert table6.plan().objective.eps == "0.5/255" and (table6.epochs, table6.batch_size) == (300, 1024)
  text, files = made("ares_bench.py", "resnet50"), made("ares_bench.py", "resnet50,files")
  assert (text.optimizer, text.weight_decay, text.attack_warmup_epochs) == ("momentum", 0.0, 0.0)
  assert (files.weight_decay, files.first_rate, files.last_rate) == (1e-4, 1e-4, 1e-5)
  assert "randaugment" in text.techniques and "randaugment" not in files.techniques
  assert made("ares_bench.py", "swin_base_patch4_window7_224,files").weight_decay == 0.05


def test_no_warm_up_begins_above_the_rate_it_rises_to():
  rates = {"first_rate": 0.1, "learning_rate": 5e-4}
  with pytest.raises(InputError, match=r"first_rate 0\.1, learning_rate 0\.0005"):
    make_train_config({**rates, "warmup_epochs": 2.0})
  assert make_train_config(rates).first_rate == 0.1
  with pytest.raises(InputError, match=r"last_rate 0\.2"):
    make_train_config({"last_rate": 0.2})


def test_patches_are_frozen_only_where_there_are_some():
  small = make_train_config(config("pretrain.py", "moco-v3-resnet50,runlocal"))
  wrapped(make_model("resnet20"), small.plan().objective, small)
  frozen = make_train_config(config("pretrain.py", "moco-v3,runlocal")).plan().objective
  with pytest.raises(InputError, match="has no patches to freeze"):
    frozen.wrap(make_model("resnet20"))


@pytest.mark.parametrize("name", [*PRETRAINED, *MORE, *(f"{name}-tune" for name in PRETRAINED)])
def test_pretraining_configs_build(name):
  made = make_train_config(config("pretrain.py", name))
  small = make_train_config(config("pretrain.py", f"{name},runlocal"))
  objective = made.plan().objective
  assert made.arch in MODELS and (made.data in DATASETS or made.data == "folder:imagenet21k")
  assert (type(objective).wrap is not Objective.wrap) == (name in (*PRETRAINED, *MORE) and name != "imagenet21k")
  wrapped(make_model(small.arch), small.plan().objective, small)
  if name.startswith("imagenet21k"):
    # Paper 000, F.2.
    wanted = (30, 0.01, 0.04) if name.endswith("tune") else (100, 0.1, 0.4)
    assert (made.epochs, made.first_rate, made.learning_rate) == wanted


@pytest.mark.parametrize("name", STUDIES)
def test_every_run_of_every_study_builds(name):
  runs = study_runs(f"{CONFIGS / 'studies.py'}:{name}", "out")
  assert len(runs) == len({run.name for run in runs}) == STUDIES[name]
  groups = {run.group for run in runs if run.judged}
  trained = {f"out/models/{run.name}" for run in runs}
  for run in runs:
    if run.model:
      assert run.model in shipped() or run.model.startswith("out/models/published/")
      continue
    made = make_train_config(run.options)
    plan = made.plan()
    assert made.arch in MODELS and (made.data.split("@")[0] in DATASETS or made.data.startswith("folder:"))
    assert not run.against or run.against in groups
    wanted = {made.init, *getattr(plan, "classifiers", ())} - {"", "out/models/clip"}
    assert wanted <= trained, "learns from a network that the study does not train"


def test_studies_say_what_the_papers_say():
  runs = lambda arg: study_runs(f"{CONFIGS / 'studies.py'}:{arg}", "out")
  oodrb = [make_train_config(run.options) for run in runs("oodrb,512,0.05,1e-5")]
  assert [run.batch_size for run in oodrb[:15]] == [128] * 4 + [512] * 11
  assert {(run.learning_rate, run.weight_decay) for run in oodrb[8:15]} == {(0.05, 1e-5)}
  assert sorted(run.plan().objective.beta for run in oodrb[9:15]) == [0.1, 0.1, 0.3, 0.3, 1.0, 1.0]
  table = {
    run.name: make_train_config(run.options) for run in study_runs(f"{CONFIGS / 'studies.py'}:ares-bench-table7", "out")
  }
  assert "mixup" not in table["swin-s+ra"].techniques and "randaugment" in table["swin-s+ra"].techniques
  assert table["swin-s+ra+mixup+ls+wd0.05"].weight_decay == 0.05 and table["swin-b"].weight_decay == 0.0
  robustart = runs("robustart-techniques")
  robustart = {run.name: make_train_config(run.options) for run in robustart}
  rates = lambda name: (robustart[name].first_rate, robustart[name].learning_rate, robustart[name].last_rate)
  assert rates("resnet50") == (0.1, 0.4, 0.0) and rates("resnet50+adamw") == (1e-5, 5e-4, 1e-5)
  assert rates("resnet50+imagenet21k") == (0.01, 0.04, 0.0) and robustart["resnet50+imagenet21k"].epochs == 30
  assert rates("vit_base_patch16_224+imagenet21k") == (1e-6, 5e-5, 1e-6)
  half, vanilla = (robustart[f"vit_base_patch16_224{one}"] for one in ("+half-at-deit", "-deit"))
  assert half.plan().objective.eps == "0.5/255" and half.techniques == (*vanilla.techniques, "half-at")
  assert robustart["mixer_b16_224+half-at"].plan().objective.eps == "16/255"
  attack = robustart["resnet50+pgd-at"].plan().objective
  assert attack.num_steps == 20 and attack.step_size * attack.budget == pytest.approx(0.002)


@pytest.mark.parametrize(
  "file, arg",
  [
    pytest.param("cifar10.py", "trades,runlocal", marks=pytest.mark.ci),
    pytest.param("ares_bench.py", "resnet50,runlocal", marks=pytest.mark.ci),
    *(pytest.param("cifar10.py", f"{name},runlocal", marks=pytest.mark.slow) for name in CIFAR if name != "trades"),
    *(pytest.param("pretrain.py", f"{name},runlocal", marks=pytest.mark.slow) for name in PRETRAINED),
    pytest.param("robustart.py", "resnet18,half-at,runlocal", marks=pytest.mark.slow),
    pytest.param("robustart.py", "deit_tiny_patch16_224,runlocal", marks=pytest.mark.slow),
  ],
)
def test_small_forms_train(file, arg, tmp_path):
  assert (train(make_train_config(config(file, arg)), tmp_path / "net", quiet=True) / "classifier.json").exists()


@pytest.mark.parametrize(
  "file, arg",
  [
    ("cifar10.py", "pgd"),
    ("robustart.py", "resnet51"),
    ("ares_bench.py", "x,y"),
    ("pretrain.py", "mea"),
    ("studies.py", "oodrb,1"),
  ],
)
def test_unknown_arguments_are_one_line(file, arg):
  with pytest.raises(InputError, match="does not know"):
    config(file, arg)
