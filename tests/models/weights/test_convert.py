"""`jaxrobust convert`: wrappers, prefixes, spellings and normalization of other people's checkpoints."""

import json

import flax
import numpy as np
import pytest

from jaxrobust.cli.main import main
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.models.registry import MODELS, abstract_variables, make_model
from jaxrobust.models.weights.convert import convert_checkpoint
from jaxrobust.models.weights.torch_names import match_names, unwrap
from jaxrobust.models.weights.torch_weights import from_torch, read_state, torch_name, torch_shape
from jaxrobust.models.zoo import load_classifier
from tests import realdata
from tests.golden import deterministic
from tests.models.weights.torch_files import tensor, zip_file

SHAPES = {
  "conv1.weight": (8, 3, 3, 3),
  "layer1.0.conv1.weight": (16, 8, 3, 3),
  "layer1.0.conv2.weight": (16, 16, 3, 3),
  "layer1.0.shortcut.0.weight": (16, 8, 1, 1),
  "layer1.1.conv1.weight": (16, 16, 3, 3),
  "layer1.1.conv2.weight": (16, 16, 3, 3),
  "linear1.weight": (100, 1024),
  "linear2.weight": (10, 100),
}
SHAPES |= {name.replace("weight", "bias"): shape[:1] for name, shape in SHAPES.items()}
STATE = {name: deterministic.draw(name, shape) for name, shape in SHAPES.items()}
IMAGES = np.random.default_rng(0).uniform(0, 1, (2, 32, 32, 3)).astype(np.float32)


def logits(mean, std):
  module = make_model("resnet2b")
  return Classifier.from_module(module, from_torch(module, STATE, (32, 32, 3)), mean=mean, std=std)(IMAGES)


@pytest.fixture
def checkpoint(tmp_path):
  def write(tree):
    storages = {}
    walk = lambda value: (
      {key: walk(item) for key, item in value.items()}
      if isinstance(value, dict)
      else tensor(value, storages)
      if isinstance(value, np.ndarray)
      else value
    )
    (tmp_path / "net.pth").write_bytes(zip_file(walk(tree), storages))
    return tmp_path / "net.pth"

  return write


def prefixed(prefix):
  return {prefix + name: array for name, array in STATE.items()}


@pytest.mark.parametrize(
  "tree",
  [
    STATE,
    {"epoch": 3, "state_dict": prefixed("module.")},
    {"net": prefixed("module.model."), "acc": np.ones(1)},
    {"state_dict": {name: 0 * array for name, array in STATE.items()}, "state_dict_ema": prefixed("module.")},
    {"model": {"module.model." + n: a for n, a in STATE.items()} | prefixed("module.attacker.model.")},
    prefixed("_orig_mod.") | {"_orig_mod.bn.num_batches_tracked": np.zeros(1)},
  ],
)
def test_wrappers_and_prefixes_are_seen_through(checkpoint, tmp_path, tree):
  done = convert_checkpoint(checkpoint(tree), "resnet2b", tmp_path / "out")
  spec = MODELS["resnet2b"]
  assert (done.mean, done.std, done.normalization) == (spec.mean, spec.std, "assumed")
  np.testing.assert_array_equal(load_classifier(tmp_path / "out")(IMAGES), logits(spec.mean, spec.std))


@pytest.mark.parametrize(
  "names", [("normalize.mean", "normalize.std"), ("0.mu", "0.sigma"), ("n.new_mean", "n.new_std")]
)
def test_a_stored_normalization_becomes_the_classifiers(checkpoint, tmp_path, names):
  mean, std = np.array([0.1, 0.2, 0.3], np.float32), np.array([0.5, 0.6, 0.7], np.float32)
  tree = prefixed("model.") | {names[0]: mean.reshape(1, 3, 1, 1), names[1]: std.reshape(3, 1, 1)}
  done = convert_checkpoint(checkpoint(tree), "resnet2b", tmp_path / "out")
  assert done.normalization == "stored in the checkpoint"
  np.testing.assert_array_equal(load_classifier(tmp_path / "out")(IMAGES), logits(mean, std))
  with pytest.raises(InputError, match="hold a normalization layer"):
    from_torch(make_model("resnet2b"), tree, (32, 32, 3))
  given = convert_checkpoint(checkpoint(tree), "resnet2b", tmp_path / "out", mean=(0.5,) * 3, std=(1.0,) * 3)
  assert given.mean == (0.5, 0.5, 0.5) and given.normalization == "given"


def test_the_command_converts_and_says_what_it_did(checkpoint, tmp_path, capsys):
  path = checkpoint({"state_dict": STATE})
  assert (
    main(["convert", str(path), "--arch", "resnet2b", "--out", str(tmp_path / "out"), "--mean=0.5", "--std=0.25"]) == 0
  )
  assert "resnet2b: 112,006 parameters; mean (0.5) and std (0.25), given" in capsys.readouterr().out
  notes = json.loads((tmp_path / "out" / "classifier.json").read_text())["notes"]
  assert notes["converted_from"] == "net.pth" and notes["entry"] == "state_dict" and len(notes["sha256"]) == 64


@pytest.mark.parametrize(
  ("words", "reason", "code"),
  [
    ([], "no checkpoint; usage: jaxrobust convert CHECKPOINT", 2),
    (["{}", "--out=x"], "no --arch", 2),
    (["{}", "--arch=resnet2b"], "no --out", 2),
    (["{}", "--arch=resnet2bb", "--out=x"], "unknown model 'resnet2bb'; did you mean 'resnet2b'", 2),
    (["{}", "--arch=resnet2b", "--out=x", "--sha256=00000000"], "has sha256", 3),
    (["{}", "--arch=resnet2b", "--out=x", "--key=ema"], "no weights under 'ema'; its entries are state_dict", 2),
    (
      ["{}", "--arch=resnet2b", "--out=x", "--num_classes=3"],
      "linear2.weight has shape (10, 100), expected (3, 100)",
      2,
    ),
    (["{}", "--arch=resnet4b", "--out=x"], "these weights do not fit resnet4b: ", 2),
    (["{}", "--arch=resnet2b", "--out=x", "--mean=red", "--std=1"], "--mean takes numbers", 2),
    (["{}", "--arch=resnet2b", "--out=x", "--mean=1"], "mean and std belong together", 2),
    (["nowhere.pth", "--arch=resnet2b", "--out=x"], "no weights at nowhere.pth", 2),
  ],
)
def test_refusals_are_one_line(checkpoint, capsys, monkeypatch, tmp_path, words, reason, code):
  path = checkpoint({"state_dict": STATE})
  monkeypatch.chdir(tmp_path)
  assert main(["convert", *(word.format(path) for word in words)]) == code
  error = capsys.readouterr().err
  assert reason in error and error.count("\n") == 1
  assert not (tmp_path / "x").exists()


def test_missing_unused_and_misshapen_tensors_are_listed():
  state = {name: array for name, array in STATE.items() if name != "conv1.bias"} | {"extra.weight": np.ones(2)}
  state["linear1.weight"] = np.ones((100, 10))
  with pytest.raises(InputError) as error:
    read_state(make_model("resnet2b"), state, (32, 32, 3))
  for reason in (
    "missing conv1.bias",
    "unused extra.weight",
    "linear1.weight has shape (100, 10), expected (100, 1024)",
  ):
    assert reason in str(error.value)


def test_other_spellings_of_known_ports():
  dense = match_names(
    ["features.denseblock1.denselayer2.norm1.weight"],
    {"module.features.denseblock1.denselayer2.norm.1.weight": np.ones(1)},
  )
  assert dense.found and not dense.unused
  names = [
    "conv_stem.weight",
    "bn1.weight",
    "blocks.0.0.conv_dw.weight",
    "blocks.0.0.bn1.bias",
    "blocks.0.0.conv_pw.weight",
  ]
  names += ["blocks.1.0.conv_pw.weight", "blocks.1.0.conv_pwl.weight", "blocks.1.0.bn3.weight", "classifier.bias"]
  theirs = ["_conv_stem.weight", "_bn0.weight", "_blocks.0._depthwise_conv.weight", "_blocks.0._bn1.bias"]
  theirs += ["_blocks.0._project_conv.weight", "_blocks.1._expand_conv.weight", "_blocks.1._project_conv.weight"]
  theirs += ["_blocks.1._bn2.weight", "_fc.bias"]
  match = match_names(names, {name: np.full(1, i) for i, name in enumerate(theirs)})
  assert match.found == dict(zip(names, theirs, strict=True)) and not match.unused


def test_training_heads_are_ignored_and_a_second_different_copy_is_not():
  state = {"fc.weight": np.ones(2), "aux1.fc.weight": np.ones(3), "AuxLogits.fc.weight": np.ones(3)}
  assert not match_names(["fc.weight"], state).unused
  assert match_names(["fc.weight"], {"a.fc.weight": np.ones(2), "bb.fc.weight": np.zeros(2)}).unused == ["bb.fc.weight"]


@pytest.mark.parametrize("tree", [{}, {"epoch": 3}, [], 5, {"state_dict": {}}])
def test_a_checkpoint_without_weights_is_refused(tree):
  with pytest.raises(InputError, match=r"no state dict|0 networks in a list"):
    unwrap(tree)


# ResNet-2B: what its checkpoint records as "test_acc".
PUBLISHED = [
  ("resnet20-12fca82f.th", "resnet20", 0.9173),
  ("cifar10_resnet56.npz", "resnet56", 0.9339),
  ("resnet2b.pth", "resnet2b", 0.6925),
  ("cifar10_cnn_a_adv.npz", "cnn-a", 0.6565),
  ("cifar10_kw_base.npz", "kw-base", 0.5853),
  ("cifar10_kw_wide.npz", "kw-wide", 0.6162),
]


@pytest.mark.ci
@realdata.needs_data
@pytest.mark.data
@pytest.mark.parametrize(
  ("file", "arch", "accuracy"),
  [pytest.param(*row, marks=pytest.mark.slow if "resnet56" in row else ()) for row in PUBLISHED],
)
def test_published_checkpoints_reach_their_accuracy_on_all_of_cifar10(tmp_path, file, arch, accuracy):
  import jax

  convert_checkpoint(realdata.ROOT / "weights" / file, arch, tmp_path / "net")
  classifier, (images, labels) = load_classifier(tmp_path / "net"), realdata.cifar10_test()
  count = jax.jit(lambda c, x, y: (c(x).argmax(-1) == y).sum())
  hits = sum(int(count(classifier, images[i : i + 500], labels[i : i + 500])) for i in range(0, len(labels), 500))
  assert hits / len(labels) == accuracy


@realdata.needs_data
@pytest.mark.data
@pytest.mark.slow
def test_efficientnet_lite_recognizes_the_sample_images(tmp_path):
  import jax
  from PIL import Image

  classifier, run = realdata.lite0(tmp_path / "net"), jax.jit(lambda c, x: c(x).argmax(-1))
  files = sorted((realdata.ROOT / "imagenet_samples").glob("*.JPEG"))
  hits = 0
  for file in files:
    image = Image.open(file).convert("RGB")
    scale = 256 / min(image.size)
    image = image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.BICUBIC)
    left, top = (image.width - 224) // 2, (image.height - 224) // 2
    pixels = np.asarray(image.crop((left, top, left + 224, top + 224)), np.float32)[None] / 255
    hits += int(run(classifier, pixels)[0]) == int(file.name.split("_")[0])
  assert hits / len(files) >= 0.88


def other(name, shape):
  """The state dict with one tensor, and its bias where it has one, of another shape."""
  bias = name.replace("weight", "bias")
  drawn = {name: deterministic.draw(name, shape), bias: deterministic.draw(bias, shape[:1])}
  return {**STATE, **drawn}


def test_classes_and_channels_are_those_of_the_tensors(checkpoint, tmp_path):
  done = convert_checkpoint(checkpoint(other("linear2.weight", (7, 100))), "resnet2b", tmp_path / "seven")
  assert load_classifier(tmp_path / "seven").num_classes == 7 and "7 classes, as its head has" in done.notes
  with pytest.raises(InputError, match="the head has 1 output; a classifier chooses among at least 2 classes"):
    convert_checkpoint(checkpoint(other("linear2.weight", (1, 100))), "resnet2b", tmp_path / "one")
  gray = convert_checkpoint(checkpoint(other("conv1.weight", (8, 1, 3, 3))), "resnet2b", tmp_path / "gray")
  classifier = load_classifier(tmp_path / "gray")
  assert classifier.input_shape == (32, 32, 1) and classifier(IMAGES[..., :1]).shape == (2, 10)
  assert "images of 1 channel, as its stem has" in gray.notes
  headless = {name: array for name, array in STATE.items() if "linear2" not in name}
  with pytest.raises(InputError, match="missing linear2"):
    convert_checkpoint(checkpoint(headless), "resnet2b", tmp_path / "none")


def test_what_was_assumed_and_which_weights_were_taken_is_said_aloud(checkpoint, tmp_path, capsys):
  path = checkpoint({"state_dict": {name: 0 * array for name, array in STATE.items()}, "state_dict_ema": STATE})
  assert main(["convert", str(path), "--arch=resnet2b", f"--out={tmp_path / 'out'}"]) == 0
  shown = capsys.readouterr()
  assert "weights of entry 'state_dict_ema'; --key=state_dict takes those of state_dict" in shown.out
  assert shown.err.startswith("WARNING: the file holds no normalization; ASSUMED that of resnet2b: --mean=0.4914,")


def test_stored_logits_are_compared_before_anything_is_written(checkpoint, tmp_path):
  path, file, out = checkpoint(STATE), tmp_path / "logits.npz", tmp_path / "out"
  np.savez(file, images=IMAGES.transpose(0, 3, 1, 2), logits=logits(0.0, 1.0))
  with pytest.raises(InputError, match=r"off by .* of their spread; they fit with --mean=0,0,0 --std=1,1,1"):
    convert_checkpoint(path, "resnet2b", out, check=file)
  assert not out.exists()
  done = convert_checkpoint(path, "resnet2b", out, mean=(0.0,), std=(1.0,), check=file)
  assert done.notes[-1].startswith("logits equal those of") and out.exists()
  np.savez(file, images=IMAGES, logits=1 + logits(0.0, 1.0) ** 2)
  with pytest.raises(InputError, match="with every usual normalization"):
    convert_checkpoint(path, "resnet2b", out, check=file)
  for same in (np.zeros((len(IMAGES), 10)), np.tile(np.arange(10.0), (len(IMAGES), 1))):
    np.savez(file, images=IMAGES, logits=same)
    with pytest.raises(InputError, match="same for all images or classes: equal ones would prove nothing"):
      convert_checkpoint(path, "resnet2b", out, check=file)
  np.savez(file, images=IMAGES)
  with pytest.raises(InputError, match="must hold `images` and `logits`, found images"):
    convert_checkpoint(path, "resnet2b", out, check=file)


def test_positions_of_another_grid_are_interpolated_or_kept_at_their_size(checkpoint, tmp_path):
  spec = MODELS["vit-micro"]
  flat = flax.traverse_util.flatten_dict(abstract_variables(make_model("vit-micro"), (48, 48, 3)))
  shapes = {torch_name(path): torch_shape(path, leaf.shape) for path, leaf in flat.items()}
  state = {name: deterministic.draw(name, shape) for name, shape in shapes.items()}
  rows = np.linspace(0, 1, 12, dtype=np.float32)
  state["pos_embed"][:, 1:] = np.repeat(rows, 12)[None, :, None]
  large = convert_checkpoint(checkpoint(state), "vit-micro", tmp_path / "large", size=48)
  assert load_classifier(tmp_path / "large").input_shape == (48, 48, 3) and not any(
    "positions" in n for n in large.notes
  )
  small = convert_checkpoint(checkpoint(state), "vit-micro", tmp_path / "small")
  classifier = load_classifier(tmp_path / "small")
  position = classifier.variables["module"]["params"]["pos_embed"]
  np.testing.assert_array_equal(position[:, 0], state["pos_embed"][:, 0])
  grid = np.asarray(position[0, 1:, 0]).reshape(8, 8)
  np.testing.assert_allclose(grid, grid[:, :1].repeat(8, 1), atol=1e-6)
  # A ramp stays one, away from its ends.
  np.testing.assert_allclose(np.diff(grid[2:6, 0]), 12 / 8 / 11, atol=5e-3)
  assert classifier.input_shape == spec.input_size and "from a grid of 12×12 to images of 32 pixels" in small.notes[0]
