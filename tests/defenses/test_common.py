"""What holds for every registered defense."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.classifier_forms import choosing
from jaxrobust.core.defense import Defense, defend, defenses_of, undefended
from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.core.gradients import ImageLogits
from jaxrobust.core.types import Problem
from jaxrobust.defenses.denoiser import SmallDenoiser
from jaxrobust.defenses.registry import (
  DEFENSES,
  defended_by,
  defense_id,
  defenses_id,
  list_defenses,
  make_defense,
  parse_defenses,
)
from jaxrobust.engine.access import model_for
from jaxrobust.models import zoo
from jaxrobust.models.zoo import UNNAMED, fingerprint

WEIGHTS = jnp.asarray(np.random.default_rng(0).normal(size=(16 * 16 * 3, 4)) / 8, jnp.float32)
IMAGES = jnp.asarray(np.random.default_rng(1).uniform(size=(3, 16, 16, 3)), jnp.float32)
KEY = jax.random.key(5)


def score(weights, images):
  return jnp.tanh(images.reshape(len(images), -1) @ weights)


NETWORK = Classifier.from_function(score, 4, variables=WEIGHTS, name="tanh")
# What a defense cannot do without, or would take too long with.
MEMBERS = {
  "ensemble": {"members": "other"},
  "smoothing-vote": {"copies": 50},
  "denoiser": {"folder": "drawn"},
  "randmix": {"copies": 2},
  "r&p": {"smallest": 0.5},
}


@pytest.fixture(autouse=True)
def members(monkeypatch):
  """Gives defenses that ask others a network of the tests."""
  other = dataclasses.replace(NETWORK, variables=-WEIGHTS)
  monkeypatch.setattr("jaxrobust.defenses.ensemble.load_classifier", lambda name: other)
  # Weights of a denoiser that is not trained.
  abstract = jax.eval_shape(lambda x: SmallDenoiser(4).init(KEY, x), jax.ShapeDtypeStruct((1, 8, 8, 3), jnp.float32))
  drawn = jax.tree.map(
    lambda leaf: np.random.default_rng(leaf.size).normal(scale=0.2, size=leaf.shape).astype(leaf.dtype), abstract
  )
  monkeypatch.setattr("jaxrobust.defenses.denoiser.GuidedDenoiser.weights", lambda self: drawn)


def made(name: str) -> Defense:
  return make_defense(name, **MEMBERS.get(name, {}))


@pytest.mark.parametrize(
  "name", [pytest.param(n, marks=pytest.mark.ci if n in ("randmix", "tv-min") else ()) for n in list_defenses()]
)
def test_views_answer_alike_rows_do_not_mix_and_every_query_draws_anew(name):
  defended = made(name)(NETWORK)

  def asked(step):
    """Two queries of one step of an attack with gradients."""
    problem = Problem(IMAGES[0], jnp.array(0), jnp.array(-1), jnp.array(0.1), KEY)
    model = model_for(None, "gradient", defended, problem, False, step)
    return model(IMAGES[0]), model(IMAGES[0])

  @jax.jit
  def everything(images, keys):
    value, back = jax.vjp(lambda x: defended.adaptive_view(x, keys[0]), images)
    gradient = back(jnp.ones_like(value) * jnp.arange(4.0))[0]
    alone = jax.vmap(lambda image, key: ImageLogits(defended, key)(image))(images, keys)
    return defended(images, keys[0]), value, gradient, alone, jax.vmap(asked)(jnp.arange(3))

  images, keys = jnp.stack([*IMAGES, *[IMAGES[0]] * 5]), jnp.stack([*[KEY] * 4, *jax.random.split(KEY, 4)])
  answer, value, gradient, alone, steps = jax.tree.map(np.asarray, everything(images, keys))
  np.testing.assert_allclose(answer, value, rtol=1e-5, atol=1e-6)
  assert answer.shape == (8, 4) and np.isfinite(gradient).all()
  assert (np.abs(gradient).max((1, 2, 3)) > 1e-5).all()
  # The same image and key, wherever they stand, and other keys.
  np.testing.assert_allclose(alone[0], alone[3], rtol=1e-5, atol=1e-6)
  draws, steps = _different(alone[3:]), np.stack(steps).reshape(6, 4)
  assert (draws > 1) == (_different(steps) > 3) == defended.randomized
  if defended.randomized:
    with pytest.raises(InputError, match="needs a key"):
      defended(IMAGES)
  else:
    np.testing.assert_allclose(steps, np.broadcast_to(alone[0], steps.shape), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", list_defenses())
def test_odd_sides_are_fine_and_no_defense_hides_that_a_network_answers_nan(name):
  images = jnp.asarray(np.random.default_rng(2).uniform(size=(2, 9, 7, 3)), jnp.float32)
  shown = IMAGES if name == "ensemble" else images  # Its other member takes no other size.
  ask = jax.jit(lambda defended: jnp.isfinite(defended(shown, KEY)).all())
  for unit in (1.0, np.nan):
    network = Classifier.from_function(
      lambda unit, x: unit * x.mean((1, 2)) @ jnp.ones((3, 4)), 4, variables=jnp.float32(unit)
    )
    assert ask(made(name)(network)) == (unit == 1.0)


def _different(rows: np.ndarray) -> int:
  return len(np.unique(rows.round(4), axis=0))


def test_attacks_without_gradients_ask_the_defended_classifier_itself():
  defended = made("jpeg")(NETWORK)
  problem = Problem(IMAGES[0], jnp.array(0), jnp.array(-1), jnp.array(0.1), KEY)
  assert model_for(None, "gradient", defended, problem, False, 0).classifier.apply is defended.adaptive
  scores = model_for(None, "score", defended, problem, False, 0)
  assert scores._logits.classifier.apply is defended.apply


def test_the_first_defense_of_a_stack_sees_the_image_first():
  stacked = defended_by(NETWORK, "bit-depth,levels=2+jpeg,quality=30")
  first, second = parse_defenses("bit-depth,levels=2+jpeg,quality=30")
  seen = jax.vmap(lambda x: second.transform(first.transform(x, None), None))(IMAGES)
  np.testing.assert_allclose(stacked(IMAGES), NETWORK(seen), rtol=1e-6)
  assert defenses_of(stacked) == (first, second) and undefended(stacked) == NETWORK
  assert defenses_id(stacked) == "bit-depth,levels=2+jpeg,quality=30"
  assert np.abs(jax.grad(lambda x: stacked.adaptive_view(x)[0, 0])(IMAGES)).max() > 1e-5
  assert np.abs(jax.grad(lambda x: stacked.naive.adaptive_view(x)[0, 0])(IMAGES)).max() == 0


def test_a_choice_among_classes_keeps_the_adaptive_view():
  two = choosing(made("jpeg")(NETWORK), ((0,), (1, 2)))
  assert np.abs(jax.grad(lambda x: two.adaptive_view(x)[0, 0])(IMAGES)).max() > 1e-5


def test_fingerprints_tell_defenses_and_their_parameters_apart():
  texts = ("", "jpeg", "jpeg,quality=74", "bit-depth", "jpeg+bit-depth", "bit-depth+jpeg")
  assert len({fingerprint(defended_by(NETWORK, text)) for text in texts}) == len(texts)
  assert fingerprint(defended_by(NETWORK, "jpeg,quality=75")) == fingerprint(defended_by(NETWORK, "jpeg"))
  nameless = Classifier.from_function(score, 4, variables=WEIGHTS)
  assert fingerprint(defended_by(nameless, "jpeg")).startswith(UNNAMED)
  assert not fingerprint(defend(NETWORK, [made("ensemble")])).startswith(UNNAMED)


@pytest.mark.parametrize(
  ("text", "error"),
  [
    ("jpg", "did you mean 'jpeg'"),
    ("jpeg,qality=3", "did you mean 'quality'"),
    ("jpeg,quality=0", "from 1 to 100"),
    ("jpeg,quality=7.5", "an integer"),
    ("jpeg,75", "name=value"),
    ("jpeg,quality=75,quality=10", "given twice"),
    ("tv-min,weight=1e400", "finite number"),
    ("bit-depth,levels=1", "2 to 256"),
    ("r&p,smallest=2", r"\(0, 1\]"),
    ("tv-min,keep=0", "tv-min wants"),
    ("randmix,copies=0", "at least one"),
    ("smoothing-vote,sigma=-1", "at least 0"),
    ("ensemble", "members="),
    ("denoiser", "folder="),
    ("jpeg++r&p", "unknown defense ''"),
    ("denoiser,folder=x,width=3", "known: folder"),
  ],
)
def test_bad_texts_are_refused_in_one_line(text, error):
  with pytest.raises((InputError, UnknownNameError), match=error) as raised:
    parse_defenses(text)
  assert "\n" not in str(raised.value)


def test_gray_images_are_refused_by_jpeg():
  with pytest.raises(InputError, match="3 channels"):
    made("jpeg").transform(jnp.ones((16, 16, 1)), None)


def test_a_folder_keeps_its_defense(tmp_path):
  module = zoo.make_model("cnn-a")
  variables = module.init(jax.random.key(0), np.zeros((1, 32, 32, 3), np.float32))
  zoo.save_classifier(tmp_path / "net", "cnn-a", variables, num_classes=10, defense="jpeg,quality=40")
  from jaxrobust import load_classifier

  found = load_classifier(tmp_path / "net")
  assert defenses_id(found) == "jpeg,quality=40"
  assert defenses_id(load_classifier(tmp_path / "net", "bit-depth")) == "bit-depth+jpeg,quality=40"
  with pytest.raises(InputError, match="stored with the defense 'jpeg,quality=40'"):
    zoo.load_classifier(tmp_path / "net")
  zoo.save_portable(tmp_path / "net", tmp_path / "small")
  assert fingerprint(load_classifier(tmp_path / "small")) == fingerprint(found)
  zoo.save_portable(tmp_path / "net", tmp_path / "bare", defense="")
  assert "defense" not in (tmp_path / "bare" / "classifier.json").read_text()
  assert not defenses_of(load_classifier(tmp_path / "bare"))


def test_names_are_those_of_the_registry():
  for name in DEFENSES:
    assert DEFENSES[name].name == name and defense_id(made(name)).startswith(name)
    assert DEFENSES[name].view() in ("BPDA", "BPDA, EOT", "own gradient", "own gradient, EOT")
