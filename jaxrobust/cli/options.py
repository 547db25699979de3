"""The meaning of every option of every command: the lines of `jaxrobust COMMAND --help`.

Options that mean the same everywhere are said once; a command's own come before them.
"""

from __future__ import annotations

_CLASSIFIER = "a classifier's folder, or a name of `jaxrobust list zoo`"

COMMON = {
  "model": f"{_CLASSIFIER}; needed",
  "data": "see `jaxrobust list datasets`; npz:FILE, folder:DIR, tfds:NAME:SPLIT; NAME@1000 a subset",
  "norm": "linf, l2 or l1",
  "eps": "the budget, as a number or a fraction",
  "preprocess": "how pictures become arrays, as resize256-crop224-bicubic; empty for the network's own way",
  "condition": "natural noise on the images before anything else, such as gaussian_noise-3; none for none",
  "n": "N examples only, in the pinned order of sets that are sorted by class; 0 for all",
  "seed": "of all randomness: an integer from 0",
  "batch_size": "examples worked on at once; 0 for what suits the machine. Verdicts do not depend on it",
  "precision": "of matrix products: highest, high, default, float32 or bfloat16",
  "save_images": "how many adversarial images to keep beside each cell; 0 for none",
  "distributed": "true where several processes share the work, each started with this same command",
  "processes": "refuse to start with another number of processes; 0 for any",
  "quiet": "true for no progress display",
  "out": "folder for the results; finished cells in it are not computed again",
  "defense": "that the classifier stands behind, as jpeg,quality=75+bit-depth; see `jaxrobust list defenses`",
  "oblivious": "empty to attack the defense adaptively; gradient for its naive gradient",
  "json": "true for one line of JSON per row instead of a table",
}

_SUITE = "a name of `jaxrobust list suites`, with options after commas such as oodrb,small"

OWN = {
  "evaluate": {
    "name": "of the model in cells and tables; empty for the folder's name",
    "suite": _SUITE,
    "oblivious": "empty to attack the defense adaptively; gradient for its naive one, images for those made without it",
    "norm": "linf, l2 or l1, where the suite does not fix it; empty for what is usual",
    "eps": "the budget, where the suite does not fix it; empty for 8/255 in linf, 0.5 in l2, 12 in l1",
    "n": "N examples of each data set, in its pinned order; 0 for what the suite says, or all",
    "preprocess": "how pictures become arrays, as resize256-crop224-bicubic; empty for the suite's or network's way",
    "certify": "prove examples robust before attacking them: crown, crown-ibp, ibp, alpha-crown; empty for no",
    "partial": "true to build metrics on others that are not whole; they say so",
    "dry_run": "true to print what the suite asks for, without data or model",
    "only": "only cells whose data/condition/attack@eps matches this shell pattern; empty for all",
    "cheap": "of suite audit: the attack that all examples go through",
    "full": "of suite audit: the attack that audits a sample of what is left standing",
    "width": "of suite audit: ends once the accuracy is known to ± so many points, with 95 % confidence",
    "evaluations": "of suite audit: forward passes after which it ends all the same; 0 for no bound",
    "samples": "forward passes per query of a randomized classifier; 0 for 20 with gradients and 1 without",
    "save_seconds": "how often a running cell saves its verdicts so far, to go on from when it is stopped",
    "quiet": "true for no progress display and no plan",
  },
  "certify": {
    "name": "of the model in cells and tables; empty for the folder's name",
    "method": "crown, crown-ibp, ibp, alpha-crown, kw or smoothing",
    "norm": "linf or l2; smoothing is always l2",
    "eps": "the budget that certified accuracy is about",
    "search": "true to search each example's largest certified radius; false to try eps alone",
    "sigma": "of smoothing: the scale of the Gaussian noise",
    "n0": "of smoothing: noisy copies that choose the class",
    "samples": "of smoothing: noisy copies that bound its probability",
    "alpha": "of smoothing: probability of a wrong certificate, per image",
    "save_seconds": "how often progress is saved, to go on from when it is stopped",
  },
  "attack": {
    "attack": "a name of `jaxrobust list attacks`",
    "options": "parameters of the attack, as --options.norm=l2; the others have its defaults",
    "eps": "the budget; empty for 8/255 in linf, 0.5 in l2, 12 in l1, and none for minimal attacks",
    "restarts": "random restarts of a single attack, at least 1",
    "targets": "empty for untargeted, next for the class after the label, or one class number for all",
    "out": "the npz file to write: images, success, distance, queries, correct, nan, robust and labels",
  },
  "transfer": {
    "models": "folders of the classifiers that images are made on: --models A B C, or separated by commas",
    "targets": "folders of the classifiers that they are shown to, likewise; empty for those they are made on",
    "eps": "the budget, or several separated by commas: 4/255,8/255",
    "steps": "numbers of steps after which images are shown, as 1,5,10; empty for all steps alone",
    "targeted": "true for random wrong classes as goals",
    "suite": "the transfer part of a suite in place of one attack: ares, ares-bench; ares,small",
    "save_seconds": "how often a running cell saves its verdicts so far, to go on from when it is stopped",
    "quiet": "true for no progress display",
    "attack": "a name of `jaxrobust list attacks` that works within a budget",
    "options": "parameters of the attack, as --options.num_steps=20; the others have its defaults",
  },
  "run": {
    "networks": "training options of each network, from a config, as --networks.standard.epochs=5",
    "suite": _SUITE,
    "out": "folder for models, results and the page; what is finished in it is not computed again",
    "show": "results folders that the page shows beside the new ones, as ('A', 'B')",
  },
  "study": {
    "out": "folder of the study; what is finished in it is not computed again",
    "only": "only runs whose name matches this shell pattern",
    "n": "judge by the first N examples only; 0 for all",
    "json": "true for the rows of `table` as JSON",
  },
  "convert": {
    "arch": "a name of `jaxrobust list models`; needed",
    "out": "folder for the classifier; needed",
    "num_classes": "of the network; 0 for what the architecture has",
    "sha256": "refuse a checkpoint with another hash; empty for any",
    "key": "which entry of the checkpoint holds the weights; empty to look for it",
    "mean": "of the normalization, as 0.485,0.456,0.406; empty for the checkpoint's or the architecture's",
    "std": "of the normalization, as 0.229,0.224,0.225; empty for the checkpoint's or the architecture's",
    "options": "parameters of the architecture",
  },
  "report": {
    "out": "folder for the page, tables and plots",
    "plots": "auto (where matplotlib is installed), yes or no",
    "url": "where the page will be published (https://…), for the picture of shared links",
  },
  "results": {
    "root": "the results folder; local, or gs://…, s3://… and the like",
    "format": "table, csv, json or parquet",
    "files": "true to let the query read and write files and load extensions; for queries of your own only",
    "out": "the file to write; empty for standard output",
  },
  "trends": {
    "root": "a results folder, instead of a CSV file; local, or gs://…, s3://… and the like",
    "suite": "whose shifts a results folder is read for: oodrb",
    "data": "what the models of a results folder were trained for; empty for the only one",
    "attack": "the attack@budget of ID robustness in a results folder, a shell pattern; empty for the only one",
    "x": "the column of the horizontal axis; empty for ID accuracy and ID robustness",
    "y": "columns of the vertical axis, separated by commas; empty for all that are under a shift",
    "filter": "which models count, as acc+rob>=110,technique=trades|mart,no-custom; empty for all",
    "group": "a label, such as technique: each group gets its own lines; empty for none",
    "scale": "raw or probit",
    "top": "the largest value of both axes: 100 for percent, 1 for fractions",
    "show": "trends, effective, degradation, catastrophic, ranks, held-out or correlations",
    "line": "of effective robustness: cifar10-linf or imagenet-linf as published; empty for the zoo's own",
    "correlate": "pearson or kendall",
    "draws": "zoos resampled for the 95 % intervals",
    "date": "of the zoo; empty for the day the file was changed",
    "out": "folder for all tables and plots; empty for none",
    "plots": "auto (where matplotlib is installed), yes or no; with out",
  },
  "data": {
    "data_dir": "the folder of all data sets; empty for $JAXROBUST_DATASETS",
    "decode": "true to open every picture; with check",
    "out": "the npz file to write; with prepare",
    "skip_bad": "true to leave out pictures that cannot be decoded; with prepare",
  },
  "bench": {
    "n": "how many images",
    "repeats": "how often each time is measured",
    "only": "only rows whose title contains this text; empty for all",
    "names": "techniques, separated by commas; empty for all",
    "arch": "a name of `jaxrobust list models`",
    "batch_size": "images per training step",
    "sizes": "of the images in pixels, separated by commas",
    "peer_python": "a Python with the other implementations installed; empty to measure ours alone",
    "autoattack_path": "a checkout of fra31/auto-attack",
    "mm_path": "a checkout of Sjtubrian/MM-attack",
  },
  "train": {
    "arch": "a name of `jaxrobust list models`",
    "arch_options": "parameters of the architecture; those of a config can be changed",
    "extra_data": "a second data set that fills a part of every batch; empty for none",
    "extra_part": "which part of every batch comes from extra_data, in (0, 1); 0 without",
    "init": "a classifier's folder to start from; empty for random weights",
    "epochs": "over the data, more than 0; parts of an epoch too",
    "batch_size": "of one step over all devices",
    "accumulate": "batches whose gradients are averaged into one update",
    "optimizer": "sgd (Nesterov 0.9), momentum (0.9) or adamw",
    "learning_rate": "the largest one of the schedule",
    "weight_decay": "of the optimizer",
    "schedule": "of the learning rate: cosine, step, step-30, cyclic or constant",
    "warmup_epochs": "in which the learning rate grows from first_rate",
    "first_rate": "the learning rate that the warm-up begins with; 0 for none",
    "last_rate": "the learning rate that the schedule ends with",
    "clip": "the largest global gradient norm; 0 for no bound",
    "techniques": "names, as ('flip', 'pgd-at'); see `jaxrobust list techniques`",
    "options": "of techniques; those of a config can be changed, as --options.trades.beta=4.0",
    "attack_warmup_epochs": "in which the budget of the training attack grows from 0",
    "precision": "of forward and backward passes: float32 or bfloat16",
    "sharding": "data copies weights to every device, fsdp splits weights and optimizer",
    "holdout": "examples kept from training to choose the best epoch by; 0 keeps the last epoch",
    "validate_steps": "of the PGD attack that the best epoch is chosen by",
    "save_every": "steps between checkpoints",
    "log_every": "steps between log lines",
    "out": "folder of the run, needed; the same command goes on with a run that was stopped",
    "index": "which run of a study to train; -1 where the config is not a study",
  },
}


def meaning(command: str, option: str) -> str:
  """Returns one line on an option of a command.

  >>> meaning("attack", "n"), meaning("bench engine", "n")
  ('N examples only, in the pinned order of sets that are sorted by class; 0 for all', 'how many images')
  """
  return OWN.get(command.split()[0], {}).get(option) or COMMON.get(option, "")
