"""Studies: many runs that differ in little, each a row (name, config to start from, what is changed).

jaxrobust study list configs/studies.py:robustart-techniques
jaxrobust train --config configs/studies.py:robustart-techniques --index=7 --out=runs/robustart
jaxrobust study run configs/studies.py:digits-techniques --out=runs/digits

  robustart-techniques  eleven techniques, with and without, on their architectures (paper 000, F.2), and Half-AT
                        (Tables 5 and 6, Fig. 29)
  ares-bench-table7     training tricks in adversarial training on ImageNet (paper 003, Table 7 and appendix A)
  oodrb, oodrb-l2       15 (l2: 11) runs of each of 20 architectures on CIFAR-10 (paper 002, appendix C); the later ones
                        use the best settings of the first: "oodrb,512,0.1,0.0001" names them (batch, rate, decay)
  oodrb-released        the same as the authors' 520 released networks are named, where text and release differ: 50
  oodrb-l2-released     epochs, rates 0.1 and 0.01 at batch 512, l2 at batch 1024 (TRADES 512) and two rates
  digits-techniques     every technique on the embedded digits, three seeds, minutes of a laptop
  cifar10-zoo           8 networks that ship with the package and 18 small ones trained here, judged by oodrb under
                        generated corruptions: a zoo for `jaxrobust trends`; with --n=200 an hour of one core
                        without the ResNets, of which an undefended one takes minutes and a robust one longer
  cifar10-zoo-published the same and 12 published networks, converted into {models}/published before

A run names its base as FILE.py:ARG beside this file; `add` and `drop` change its techniques, `options` theirs, `change`
everything else. {models} stands for the folder of the study's networks: a run may start from or learn from an earlier
one. `against` names the group that a group is compared with. `model` names a classifier that is there already: it is
judged and not trained.
"""

from ml_collections import ConfigDict


def _run(name, base="", add=(), drop=(), options=None, group="", against="", judged=True, model="", **change):
  """One row; groups gather the seeds of one setting, and what is only a start for others is not judged."""
  row = {"name": name, "base": base, "add": tuple(add), "drop": tuple(drop), "options": options or {}, "change": change}
  return ConfigDict({**row, "group": group or name, "against": against, "judged": judged, "model": model})


RESNET, REGNET, SHUFFLE = "resnet50", "regnetx_032", "shufflenet_v2_x2_0"
CLIP = "vit_base_patch16_clip_quickgelu_224"
MOBILE, VIT, MIXER = "mobilenetv3_large_140", "vit_base_patch16_224", "mixer_b16_224"
SIX = (RESNET, REGNET, SHUFFLE, MOBILE, VIT, MIXER)
# The step of 0.002 over the budget of 8/255.
PGD = {"eps": "8/255", "num_steps": 20, "step_size": 0.002 * 255 / 8}
DROPOUT = {"efficientnet_b0": 0.2, MOBILE: 0.2, VIT: 0.1, MIXER: 0.1}
# "Base learning rate 1e-5 and warm-up learning rate 5e-4" (paper 000, F.2); the weight decay is its transformers'.
ADAMW = {"optimizer": "adamw", "learning_rate": 5e-4, "first_rate": 1e-5, "last_rate": 1e-5, "weight_decay": 0.05}


def robustart_techniques():
  """Baselines (with label smoothing) first, then what needs nothing else, then what starts from another run."""
  baselines = dict.fromkeys((*SIX, "efficientnet_b0", "repvgg_a0", "repvgg_b3", "resnet18"))
  runs = [_run(arch, f"robustart.py:{arch}") for arch in baselines]

  def technique(arch, name, setting="", **rest):
    runs.append(_run(f"{arch}+{name}", f"robustart.py:{arch}{setting}", against=rest.pop("against", arch), **rest))

  for arch in SIX:
    technique(arch, "mixup", add=["mixup"], options={"mixup": {"alpha": 0.2}})
    technique(arch, "augmix", add=["augmix-jsd"], options={"augmix-jsd": {"severity": 1.0}})
    technique(arch, "weight-averaging", add=["ema"], options={"ema": {"decay": 0.9999}})
    technique(arch, "no-label-smoothing", drop=["label-smoothing"])
    technique(arch, "pgd-at", add=["pgd-at"], options={"pgd-at": PGD})
    technique(arch, "half-at", ",half-at")
  runs.append(_run(f"{VIT}-deit", f"robustart.py:{VIT},half-at-deit", drop=["half-at"]))
  technique(VIT, "half-at-deit", ",half-at-deit", against=f"{VIT}-deit")
  for arch in (RESNET, REGNET, SHUFFLE, MOBILE):
    technique(arch, "adamw", **ADAMW)
  for arch, rate in DROPOUT.items():
    technique(arch, "dropout", arch_options={"drop_rate": rate})
  for arch in ("repvgg_a0", "repvgg_b3"):
    technique(arch, "reparameterised", add=["repvgg"])
  technique("resnet18", "distillation", add=["distill"], options={"distill": {"teacher": "{models}/resnet50"}})
  runs.append(_run("resnet50-moco-v2", "pretrain.py:moco-v2", judged=False))
  technique(RESNET, "moco-v2", init="{models}/resnet50-moco-v2")
  # Fine-tuning is at a tenth of the rates: 0.01 and 0.04 in the paper, which does not say those of ViT.
  tenth = {RESNET: {"learning_rate": 0.04, "first_rate": 0.01}}
  tenth[VIT] = {"learning_rate": 5e-5, "first_rate": 1e-6, "last_rate": 1e-6}
  for arch, optimizer in ((RESNET, {}), (VIT, ADAMW)):
    runs.append(_run(f"{arch}-imagenet21k", "pretrain.py:imagenet21k", judged=False, arch=arch, **optimizer))
    technique(arch, "imagenet21k", init=f"{{models}}/{arch}-imagenet21k", epochs=30.0, **tenth[arch])
  return runs


def ares_bench_table7():
  """Swin-S with more and more tricks, Swin-B and ViT-B with other starts; weight decay 0 and 300 epochs unless said.

  Where a network is pre-trained it is trained 100 epochs (the paper does not say); put CLIP's image encoder into
  the folder {models}/clip with `jaxrobust convert --arch=vit_base_patch16_clip_quickgelu_224`.
  """
  small, base, vit = "swin_small_patch4_window7_224", "swin_base_patch4_window7_224", VIT
  everything = ("randaugment", "mixup", "label-smoothing", "ema")
  rows = [
    ("swin-s", small, (), 0.0),
    ("swin-s+ra", small, ("randaugment",), 0.0),
    ("swin-s+ra+mixup", small, ("randaugment", "mixup"), 0.0),
    ("swin-s+ra+mixup+ls", small, everything[:3], 0.0),
    ("swin-s+ra+mixup+ls+wd0.01", small, everything[:3], 0.01),
    ("swin-s+ra+mixup+ls+wd0.05", small, everything[:3], 0.05),
    ("swin-s+ra+mixup+ls+wd0.1", small, everything[:3], 0.1),
    ("swin-s+ra+mixup+ls+ema", small, everything, 0.0),
    ("swin-b", base, everything, 0.0),
    ("vit-b", vit, everything, 0.0),
  ]
  runs = []
  for name, arch, tricks, decay in rows:
    drop = [trick for trick in everything if trick not in tricks]
    runs.append(_run(name, f"ares_bench.py:{arch}", drop=drop, against="swin-s", weight_decay=decay))
  runs.append(_run("swin-b-imagenet21k", "pretrain.py:imagenet21k", judged=False, arch=base, **ADAMW))
  runs.append(_run("swin-b-simmim", "pretrain.py:simmim", judged=False))
  for start, arch, against in (
    ("swin-b-imagenet21k", base, "swin-b"),
    ("swin-b-simmim", base, "swin-b"),
    ("clip", CLIP, "vit-b"),
  ):
    changes = {"init": f"{{models}}/{start}", "weight_decay": 0.0, "epochs": 100.0}
    runs.append(_run(f"{against}+{start.split('-')[-1]}", f"ares_bench.py:{arch}", against=against, **changes))
  return runs


OODRB = (
  *("cifar-densenet121", "cifar-googlenet", "cifar-inception_v3"),
  *("cifar-vgg11_bn", "cifar-vgg13_bn", "cifar-vgg16_bn", "cifar-vgg19_bn"),
  *("cifar-resnet34", "cifar-resnet50", "cifar-resnet101", "cifar-resnet152"),
  *("cifar-efficientnet_b0", "cifar-mobilenetv2", "cifar-dla"),
  *("cifar-resnext29_2x64d", "cifar-resnext29_4x64d", "cifar-resnext29_32x4d", "cifar-resnext29_8x64d"),
  *("cifar-senet18", "cifar-convmixer_256_8"),
)
BETAS = (0.1, 0.3, 1.0)


def oodrb(norm="linf", batch_size=128, rate=0.1, decay=1e-4):
  """PGD over batch size, learning rate and weight decay; PGD-SCORE, TRADES and TRADES-SCORE at the best of them."""
  attack = {"eps": "8/255" if norm == "linf" else "0.5", "norm": norm, "num_steps": 10, "step_size": 0.25}
  runs = []

  def add(arch, name, objective, batch_size, rate, decay, **options):
    settings = {"batch_size": batch_size, "learning_rate": rate, "weight_decay": decay}
    row = {"arch": arch, "schedule": "step", "epochs": 110.0, **settings}
    options = {objective: {**attack, **options}}
    runs.append(
      _run(f"{arch}/{name}", "cifar10.py:standard", add=[objective], drop=["standard"], options=options, **row)
    )

  for arch in OODRB:
    for size in (128, 512):
      # With l2 the paper keeps the learning rate at 0.1.
      for step in (0.1, 0.05) if norm == "linf" else (0.1,):
        for shrink in (1e-4, 1e-5):
          add(arch, f"pgd-b{size}-r{step}-d{shrink}", "pgd-at", size, step, shrink)
    add(arch, "pgd-score", "pgd-score", batch_size, rate, decay)
    for objective in ("trades", "trades-score"):
      for beta in BETAS:
        add(arch, f"{objective}-{beta}", objective, batch_size, rate, decay, beta=beta)
  return runs


def oodrb_released(norm):
  """The settings in the names of the released networks; the few exceptions of single architectures are left out."""
  linf = norm == "linf"
  grid = [(128, (0.1, 0.05)), (512, (0.1, 0.01))] if linf else [(1024, (0.1, 0.01))]
  score, trades = (128, 128) if linf else (1024, 512)
  runs = [row for row in oodrb(norm) if "/pgd-b" not in row.name]
  for row in runs:
    row.change.update({"batch_size": score if "pgd-score" in row.name else trades, "learning_rate": 0.1})
  for first in [row for row in runs if row.name.endswith("/pgd-score")]:
    for size, rates in grid:
      for rate in rates:
        for decay in (1e-4, 1e-5):
          row = ConfigDict(first.to_dict())
          row.name = row.group = f"{first.change.arch}/pgd-b{size}-r{rate}-d{decay}"
          row.add, row.options = ("pgd-at",), ConfigDict({"pgd-at": first.options["pgd-score"].to_dict()})
          row.change.update({"batch_size": size, "learning_rate": rate, "weight_decay": decay})
          runs.append(row)
  for row in runs:
    row.change.epochs = 50.0
  return runs


# On the digits: everything is measured at 16/255 and trained for somewhat more, as in local.py.
_DIGITS = {"eps": "24/255", "num_steps": 3, "step_size": 2 / 3}
_PLAIN = {
  "label-smoothing": {},
  "mixup": {},
  "cutmix": {},
  "pad-crop-flip": {"flip": False},
  "random-resized-crop": {"smallest": 0.5},
  "colour-jitter": {},  # A run and its folder are named so.
  "randaugment": {},
  "autoaugment": {"policy": "cifar10"},
  "trivialaugment": {},
  "augmix": {},
  "augmix-jsd": {},
  "cutout": {"size": 8},
  "random-erasing": {},
  "ema": {"decay": 0.98},
  "swa": {},
  "he": {},
}
_ROBUST = {
  "half-at": _DIGITS,
  "fast-at": {"eps": "24/255"},
  "trades": _DIGITS,
  "pgd-score": _DIGITS,
  "trades-score": {**_DIGITS, "beta": 3.0},
  "mart": _DIGITS,
  "alp": _DIGITS,
  "free-at": {"eps": "24/255", "replays": 4},
  "mm-at": {"eps": "24/255", "num_steps": 6},
  "mm-at-fixed": {"eps": "24/255", "num_steps": 6},
  "vr": _DIGITS,
  "mma": _DIGITS,
  "fat": _DIGITS,
  "multi-at": {"num_steps": 3, "step_size": 2 / 3},
}
_WITH_AT = {"awp": {}, "idbh": {}, "ema": {"decay": 0.98}, "swa": {}, "label-smoothing": {}, "mixup": {}, "he": {}}
_PRETRAINED = ("moco-v2", "acl")


def digits_techniques():
  """Every technique beside its baseline: standard training, or PGD-AT for what changes adversarial training."""
  runs = []

  def add(group, seed, techniques, options, against="", **change):
    robust = bool({*_ROBUST, "pgd-at", "hat", "ensemble-at"} & set(techniques))
    common = {"epochs": 30.0, "attack_warmup_epochs": 10.0} if robust else {"epochs": 20.0}
    change = {"arch": "cnn-tiny", "seed": seed, **common, **change}
    options = {name: options[name] for name in techniques if options.get(name)}
    runs.append(_run(f"{group}-s{seed}", add=techniques, options=options, group=group, against=against, **change))

  for seed in range(3):
    add("standard", seed, (), {})
    add("pgd-at", seed, ("pgd-at",), {"pgd-at": _DIGITS}, "standard")
    for name, options in _PLAIN.items():
      add(name, seed, (name,), {name: options}, "standard")
    for name, options in _ROBUST.items():
      add(name, seed, (name,), {name: options}, "pgd-at")
    for name, options in _WITH_AT.items():
      add(f"pgd-at+{name}", seed, (name, "pgd-at"), {name: options, "pgd-at": _DIGITS}, "pgd-at")
    teacher = {"teacher": f"{{models}}/pgd-at-s{seed}"}
    add("distill", seed, ("distill",), {"distill": teacher}, "standard")
    static = {**_DIGITS, "num_steps": 1, "sources": (f"{{models}}/standard-s{seed}",)}
    add("ensemble-at", seed, ("ensemble-at",), {"ensemble-at": static}, "pgd-at")
    add("hat", seed, ("hat",), {"hat": {**_DIGITS, "helper": f"{{models}}/standard-s{seed}"}}, "pgd-at")
    add("half-of-the-data", seed, (), {}, "standard", data="digits32-train@648")
    extra = {"data": "digits32-train@648", "extra_data": "digits32-train", "extra_part": 0.5}
    add("extra-data", seed, (), {}, "half-of-the-data", **extra)
    for name in _PRETRAINED:
      runs.append(_run(f"{name}-s{seed}", f"pretrain.py:{name},runlocal", judged=False, epochs=20.0, seed=seed))
      add(f"{name}+tuned", seed, (), {}, "standard", init=f"{{models}}/{name}-s{seed}")
    add("repvgg", seed, (), {}, "standard", arch="repvgg_tiny")
    add("repvgg+reparameterised", seed, ("repvgg",), {}, "repvgg", arch="repvgg_tiny")
    vit = {"arch": "vit-micro", "arch_options": {"patch_size": 8}}
    dropout = {"arch_options": {"patch_size": 8, "drop_rate": 0.1, "drop_path_rate": 0.1}}
    add("vit", seed, (), {}, "standard", **vit)
    add("vit+dropout", seed, (), {}, "vit", **{**vit, **dropout})
    for name in ("mae", "simmim", "moco-v3"):
      # Small batches: what these wait for is a number of updates.
      small = {"epochs": 15.0, "batch_size": 16, "schedule": "constant", "seed": seed}
      runs.append(_run(f"{name}-s{seed}", f"pretrain.py:{name},runlocal", judged=False, **small))
      add(f"vit+{name}", seed, (), {}, "vit", init=f"{{models}}/{name}-s{seed}", **vit)
  return runs


_SHIPPED = ("standard", "fast-at", "fast-at-tuned", "pgd-at", "pgd-at-tuned", "awp", "half-at", "trades")
# Two starts from scratch; the others begin at the first of them, so that half an epoch of adversarial training tells.
_ZOO_STARTS = {"standard": {"standard": {}}, "standard-augmix": {"augmix": {}, "standard": {}}}
_ZOO = {
  "standard-cutout": {"cutout": {}, "standard": {}},
  "standard-mixup": {"mixup": {}, "standard": {}},
  "pgd-at-2": {"pgd-at": {"eps": "2/255"}},
  "pgd-at-4": {"pgd-at": {"eps": "4/255"}},
  "pgd-at-8": {"pgd-at": {"eps": "8/255"}},
  "pgd-at-12": {"pgd-at": {"eps": "12/255"}},
  "pgd-at-8-cutout": {"cutout": {}, "pgd-at": {"eps": "8/255"}},
  "pgd-at-l2": {"pgd-at": {"eps": "0.5", "norm": "l2"}},
  "fast-at-4": {"fast-at": {"eps": "4/255"}},
  "fast-at-8": {"fast-at": {"eps": "8/255"}},
  "half-at-8": {"half-at": {"eps": "8/255"}},
  "pgd-score-8": {"pgd-score": {"eps": "8/255"}},
  "trades-4": {"trades": {"eps": "4/255", "beta": 6.0}},
  "trades-8": {"trades": {"eps": "8/255", "beta": 6.0}},
  "mart-8": {"mart": {"eps": "8/255"}},
  "alp-8": {"alp": {"eps": "8/255"}},
}
_PUBLISHED = (
  *("cnn-a-adv", "cnn-a-adv4", "kw-base", "kw-wide", "resnet2b-adv", "resnet20", "resnet56"),
  *(f"resnet32-{name}" for name in ("normal", "delta", "stadv", "recoloradv", "recoloradv-delta")),
)


def cifar10_zoo(published=()):
  """Networks that differ much in accuracy and robustness; small ones are judged in minutes each."""
  runs = []

  def add(name, techniques, **change):
    short = {} if "standard" in techniques or name.startswith("fast-at") else {"num_steps": 2, "step_size": 0.75}
    options = {key: {**short, **value} for key, value in techniques.items() if value}
    change = {"arch": "cnn-a", "holdout": 0, **change}
    runs.append(_run(f"cnn-a-{name}", "cifar10.py:standard", techniques, ["standard"], options, **change))

  for name, techniques in _ZOO_STARTS.items():
    add(name, techniques, learning_rate=0.05, epochs=2.0)
  for name, techniques in _ZOO.items():
    add(name, techniques, init="{models}/cnn-a-standard", schedule="cosine", learning_rate=0.02, epochs=0.5)
  there = {name: f"{{models}}/published/{name}" for name in published}
  there |= {f"resnet20-{name}": f"cifar10-resnet20-{name}" for name in _SHIPPED}
  return runs + [_run(name, model=model) for name, model in there.items()]


STUDIES = {
  "robustart-techniques": robustart_techniques,
  "ares-bench-table7": ares_bench_table7,
  "oodrb": oodrb,
  "oodrb-l2": lambda *best: oodrb("l2", *best),
  "oodrb-released": lambda: oodrb_released("linf"),
  "oodrb-l2-released": lambda: oodrb_released("l2"),
  "digits-techniques": digits_techniques,
  "cifar10-zoo": cifar10_zoo,
  "cifar10-zoo-published": lambda: cifar10_zoo(_PUBLISHED),
}
# How the networks of a study are judged by `jaxrobust study run`.
EVALUATION = {
  "robustart-techniques": {"data": "imagenet", "suite": "robustart"},
  "ares-bench-table7": {"data": "imagenet", "suite": "ares-bench"},
  "oodrb": {"data": "cifar10", "suite": "oodrb"},
  "oodrb-l2": {"data": "cifar10", "norm": "l2", "suite": "oodrb"},
  "oodrb-released": {"data": "cifar10", "suite": "oodrb"},
  "oodrb-l2-released": {"data": "cifar10", "norm": "l2", "suite": "oodrb"},
  "digits-techniques": {"data": "digits32", "eps": "16/255"},
  "cifar10-zoo": {"data": "cifar10", "suite": "oodrb,generated+sensitivity"},
  "cifar10-zoo-published": {"data": "cifar10", "suite": "oodrb,generated+sensitivity"},
}


def get_config(arg: str = "digits-techniques") -> ConfigDict:
  """The rows of a study, and how they are judged."""
  name, *words = arg.split(",")
  if name not in STUDIES or (words and (name not in ("oodrb", "oodrb-l2") or len(words) != 3)):
    raise ValueError(f"an argument is one of {', '.join(STUDIES)}, or oodrb[-l2],BATCH,RATE,DECAY")
  best = (int(words[0]), float(words[1]), float(words[2])) if words else ()
  rows = oodrb("linf", *best) if name == "oodrb" else STUDIES[name](*best)
  return ConfigDict({"study": name, "runs": tuple(rows), "evaluation": EVALUATION[name]})
