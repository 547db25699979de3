"""What an attack leaves undeclared, misspells or contradicts is refused in one line that names it and the fix."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrobust as jr
from jaxrobust import testing
from jaxrobust.core.contract import contract_of
from jaxrobust.core.errors import InputError
from jaxrobust.core.threat import Norm, Threat


@dataclasses.dataclass(frozen=True)
class Still:
  """Looks at the image itself."""

  num_steps: int = 2
  threat = jr.Norm("l2")
  minimal = False
  access = "gradient"
  cost = jr.Cost(1, 1)

  def init(self, problem):
    return 0

  def step(self, model, problem, state):
    return state + 1, jr.Probe(problem.image, model(problem.image), queries=1)


def variant(base=Still, without=(), **changes):
  """Returns an attack like `base`, written without some of its lines and with others."""
  parts = {key: value for key, value in vars(base).items() if not key.startswith("__") or key == "__annotations__"}
  if "num_steps" in without:
    parts["__annotations__"] = {}
  parts = {key: value for key, value in parts.items() if key not in without}
  return dataclasses.dataclass(frozen=True)(type("Mine", (), {**parts, **changes}))()


def threat_of(**parts):
  return dataclasses.dataclass(frozen=True)(type("Odd", (Threat,), {"name": "odd", **parts}))()


def far(self, original, image, witness=None):
  return jnp.max(jnp.abs(image - original))


def refused(attack, *texts):
  """The attack is refused wherever it is handed in, in one line that has these texts."""
  images = np.full((2, 4, 4, 3), 0.5, np.float32)
  classifier = jr.Classifier.from_function(lambda x: x.mean((1, 2)), 3)
  with pytest.raises(InputError) as error:
    jr.attack_images(attack, classifier, images, np.zeros(2, int), eps=0.1, batch_size=2)
  message = str(error.value)
  assert "\n" not in message and all(text in message for text in texts), message


def test_a_whole_contract_is_read():
  contract = contract_of(Still())
  assert contract.threat == Norm("l2") and contract.num_steps == 2 and contract.cost == jr.Cost(1, 1)
  assert contract[5:] == (False, None, False, False, 0)
  assert contract_of(jr.make_attack("pgd", norm="l1")).threat == Norm("l1")


@pytest.mark.parametrize(
  ("part", "fix"),
  [
    ("threat", "write `threat = by_norm` beside a field `norm`, or `threat = Norm('linf')`"),
    ("minimal", "False to stop at the first success, True to keep the closest"),
    ("access", "'gradient', 'score' or 'decision'"),
    ("cost", "Cost(forward, backward)"),
    ("num_steps", "the steps it takes at the most"),
    ("init", "init(problem) -> state"),
    ("step", "step(model, problem, state) -> (state, Probe)"),
  ],
)
def test_what_is_not_declared_is_refused_with_how_to_declare_it(part, fix):
  refused(variant(without=(part,)), "attack Mine", f"does not declare {part}", fix)


def test_an_l2_attack_whose_author_forgets_the_norm_is_refused():
  refused(variant(without=("threat",), norm="l2"), "attack Mine does not declare threat", "by_norm")


@pytest.mark.parametrize(
  ("wrong", "right"),
  [
    ("minmal", "minimal"),
    ("acess", "access"),
    ("candidat", "candidate"),
    ("max_query", "max_queries"),
    ("need_start", "needs_start"),
    ("may_leave_bal", "may_leave_ball"),
    ("treat", "threat"),
  ],
)
def test_what_is_misspelled_is_refused_with_the_right_spelling(wrong, right):
  refused(variant(without=(right,), **{wrong: True}), "attack Mine", repr(wrong), f"did you mean {right!r}")


class Hidden(Threat):
  """Holds weights where nobody sees them."""

  name = "hidden"

  def __init__(self):
    self.weights = {"deep": jnp.ones(3)}


@dataclasses.dataclass
class Soft(Threat):
  """Can be changed, so it cannot be hashed."""

  name: str = "soft"


@dataclasses.dataclass(frozen=True)
class Weighed(Threat):
  """The mean change, weighed."""

  weight: jax.Array
  name: str = dataclasses.field(default="weighed", metadata={"static": True})

  def distance(self, original, image, witness=None):
    return self.weight * jnp.abs(image - original).mean()


jax.tree_util.register_dataclass(Weighed)


@dataclasses.dataclass(frozen=True)
class Measured(Threat):
  """Has a function of its own."""

  measure: object
  name: str = "measured"

  def distance(self, original, image, witness=None):
    return jnp.max(jnp.abs(self.measure(image - original)))


def weighing(weights):
  return lambda change: weights * change


class Net:
  """An object that JAX cannot look into."""

  def __init__(self):
    self.layers = [{"weights": jnp.ones(3)}]
    self.itself = self

  def features(self, change):
    return self.layers[0]["weights"] * change


DEEP = {
  "field of an object": Net(),
  "method": Net().features,
  "partial of a method": functools.partial(Net().features),
  "compiled function": jax.jit(weighing(jnp.ones(3))),
  "function around another": (lambda inner: lambda change: inner(change))(weighing(jnp.ones(3))),
  "default": lambda change, weights=jnp.ones(3): weights * change,  # noqa: B008
}


@pytest.mark.parametrize("how", DEEP)
def test_arrays_of_a_threat_are_found_however_deep(how):
  refused(variant(threat=Measured(DEEP[how])), "attack Mine", "threat Measured holds arrays")


def test_a_threat_may_have_functions_and_objects_without_arrays():
  for measure in (jnp.abs, jax.jit(jnp.abs), functools.partial(jnp.multiply, 2.0), object()):
    contract_of(variant(threat=Measured(measure)))


class Late(Threat):
  """Hides what it is given only once it meets a classifier."""

  name = "late"

  def distance(self, original, image, witness=None):
    return jnp.max(jnp.abs(image - original))

  def for_classifier(self, classifier):
    bound = Late()
    bound.network = jr.Classifier.from_function(lambda v, x: x, 3, variables=jnp.ones(2))
    return bound


@pytest.mark.parametrize(
  ("changes", "texts"),
  [
    ({"access": "score"}, ["access is 'score', but its cost counts gradients"]),
    ({"access": "decision"}, ["access is 'decision', but its cost counts gradients"]),
    ({"access": "all"}, ["access 'all' is none of gradient, score, decision"]),
    ({"minimal": True, "may_leave_ball": True}, ["a minimal attack has no ball to leave"]),
    ({"minimal": "yes"}, ["True or False"]),
    ({"norm": "linf"}, ["norm 'linf' is not its", "l2"]),
    ({"threat": "l2"}, ["threat must be a Threat such as Norm('l2'), got 'l2'"]),
    ({"threat": Hidden()}, ["threat Hidden holds arrays", "register_dataclass"]),
    ({"threat": Measured(functools.partial(jnp.multiply, jnp.ones(3)))}, ["threat Measured holds arrays"]),
    ({"threat": Measured(weighing(jnp.ones(3)))}, ["threat Measured holds arrays"]),
    ({"threat": Late()}, ["threat Late holds arrays", "register_dataclass"]),
    ({"threat": Soft()}, ["threat Soft cannot be hashed: make it a frozen dataclass"]),
    ({"threat": property(lambda self: Weighed(jnp.ones(())))}, ["cannot be a property; make it a field"]),
    ({"cost": 3}, ["cost must be Cost(forward, backward), got 3"]),
    ({"cost": jr.Cost(0, 1)}, ["no step costs Cost(forward=0"]),
    ({"max_queries": 0}, ["max_queries is 0"]),
    ({"needs_others": -1}, ["needs_others is a number of images, got -1"]),
    ({"needs_others": 2, "needs_start": True}, ["either a start or other images, not both"]),
    ({"max_queries": 4, "cost": jr.Cost(5, 1)}, ["max_queries is 4, but a step makes 5"]),
    ({"init": 3}, ["init and step are methods"]),
    ({"__hash__": None}, ["make it a frozen dataclass"]),
  ],
)
def test_what_contradicts_itself_is_refused(changes, texts):
  refused(variant(**changes), "attack Mine", *texts)


@pytest.mark.parametrize(
  ("step", "texts"),
  [
    (lambda self, model, p, s: (s, jr.Probe(p.image, model(p.image))), ["missing", "queries"]),
    (lambda self, model, p, s: (s, jr.Probe(p.image, model(p.image), None)), ["Probe.queries is one integer"]),
    (lambda self, model, p, s: (s, jr.Probe(p.image, model(p.image), 1.5)), ["Probe.queries is one integer"]),
    (lambda self, model, p, s: (s, jr.Probe(p.image[0], model(p.image), 1)), ["Probe.image has the shape (4, 3)"]),
    (
      lambda self, model, p, s: (s, jr.Probe(p.image, model(p.image)[0], 1)),
      ["Probe.logits is what model(image) said"],
    ),
    (lambda self, model, p, s: (s + 0.5, jr.Probe(p.image, model(p.image), 1)), ["the state that init made"]),
    (
      lambda self, model, p, s: jr.Probe(p.image, model(p.image), 1),
      ["step(model, problem, state) returns (state, Probe"],
    ),
    (lambda self, model, p, s: (s, model(p.image)), ["returns (state, Probe(image, logits, queries))"]),
  ],
)
def test_a_step_that_reports_something_else_is_refused_before_anything_compiles(step, texts):
  refused(variant(step=step), "attack Mine", *texts)


def test_a_witness_that_is_not_reported_is_refused():
  threat = threat_of(name="rendered", witnessed=True, distance=far, render=lambda self, original, witness: original)
  refused(variant(threat=threat), "attack Mine", "rendered measures a witness: report Probe(..., witness=...)")


@pytest.mark.parametrize("access", ["score", "decision"])
def test_differentiating_beyond_the_access_is_refused(access):
  def step(self, model, problem, state):
    grad = jax.grad(lambda x: jnp.where(jnp.sum(model(x)) > 0, 1.0, 2.0) * jnp.sum(x))(problem.image)
    return state, jr.Probe(problem.image + 0 * grad, model(problem.image), queries=2)

  attack = variant(step=step, access=access, cost=jr.Cost(2, 0))
  refused(attack, f"attack Mine differentiates the model, but declares access '{access}'; declare 'gradient'")


def test_a_model_without_gradients_offers_no_way_around():
  seen = []

  def step(self, model, problem, state):
    seen.append([name for name in dir(model) if not name.startswith("_")])
    return state, jr.Probe(problem.image, model(problem.image), queries=1)

  images = np.full((1, 4, 4, 3), 0.5, np.float32)
  for access, names in (("score", ["sampled"]), ("decision", [])):
    attack = variant(step=step, access=access, cost=jr.Cost(1, 0))
    jr.attack_images(
      attack, jr.Classifier.from_function(lambda x: x.mean((1, 2)), 3), images, np.zeros(1, int), eps=0.1
    )
    assert seen.pop() == names


def test_a_cascade_has_one_threat():
  first, second = jr.make_attack("pgd", norm="linf"), jr.make_attack("pgd", norm="l2")
  with pytest.raises(InputError, match="the stages of a cascade must share one threat, got l2, linf"):
    jr.Cascade((jr.Stage(first), jr.Stage(second)))
  one, same, other = (variant(threat=Weighed(jnp.asarray(weight))) for weight in (1.0, 1.0, 2.0))
  assert jr.Cascade((jr.Stage(one), jr.Stage(same))).norm == "weighed"
  with pytest.raises(InputError, match="one threat, got two weighed that measure differently"):
    jr.Cascade((jr.Stage(one), jr.Stage(other)))


def test_more_samples_than_the_budget_of_queries_are_refused():
  classifier = jr.Classifier.from_function(lambda x, key: x.mean((1, 2)), 3, randomized=True)
  attack = variant(access="score", cost=jr.Cost(3, 0), max_queries=10)
  images = np.full((1, 4, 4, 3), 0.5, np.float32)
  with pytest.raises(InputError, match="attack Mine: 4 samples of 3 queries a step are more than max_queries, 10"):
    jr.attack_images(attack, classifier, images, np.zeros(1, int), eps=0.1, samples=4)


def test_a_threat_without_a_default_budget_needs_one_for_the_checks():
  with pytest.raises(InputError, match="no default budget for the threat 'weighed'; pass eps="):
    testing.check_attack(variant(threat=Weighed(jnp.ones(()))))


def test_queries_beyond_what_can_be_counted_are_refused():
  refused(variant(access="score", cost=jr.Cost(2**30, 0)), "up to 2147483648 queries of one image")


@dataclasses.dataclass(frozen=True)
class Given:
  """Has fields without defaults, which are no attributes of its class."""

  num_steps: int
  max_querys: int
  threat = jr.Norm("l2")
  minimal = False
  access = "gradient"
  cost = jr.Cost(1, 1)
  init, step = Still.init, Still.step


def test_a_misspelt_field_without_a_default_is_refused():
  refused(Given(2, 9), "Given has 'max_querys'", "did you mean 'max_queries'?")


@pytest.mark.parametrize(
  ("wrong", "right"), [("treat", "threat"), ("minmal", "minimal"), ("acces", "access"), ("candidat", "candidate")]
)
def test_an_inherited_part_does_not_excuse_a_misspelled_one(wrong, right):
  heir = dataclasses.dataclass(frozen=True)(type("Heir", (Still,), {wrong: jr.Norm("linf")}))
  refused(heir(), "attack Heir", f"{wrong!r}", f"did you mean {right!r}?")


def test_what_equals_a_good_value_is_not_one():
  flagged = dataclasses.make_dataclass("Flagged", [("minimal", bool, False)], bases=(Still,), frozen=True)
  assert contract_of(flagged(minimal=True)).minimal is True
  refused(flagged(minimal=1), "True or False")
  assert contract_of(Still(num_steps=10)).num_steps == 10
  refused(Still(num_steps=10.0), "num_steps is 10.0")


@pytest.mark.parametrize(
  ("threat", "texts"),
  [
    (threat_of(distnace=far), ("'distnace'", "did you mean 'distance'?")),
    (threat_of(), ("does not define distance",)),
    (threat_of(distance=far, name=""), ("has no name",)),
    (threat_of(distance=far, witnessed=True), ("is witnessed, but does not define render",)),
    (threat_of(distance=far, render=lambda self, original, witness: original), ("not declared witnessed",)),
    (jr.by_norm, ("wants what is not there", "'norm'")),
  ],
)
def test_a_threat_that_is_not_whole_is_refused(threat, texts):
  refused(variant(threat=threat), *texts)


def test_a_distance_that_is_not_the_threats_fails_the_checks():
  def step(self, model, problem, state):
    far = jnp.clip(problem.image + 0.3, 0.0, 1.0)
    return state + 1, jr.Probe(far, model(far), queries=1, distance=jnp.float32(0.03))

  with pytest.raises(AssertionError, match="the distance that a step reports is that of its threat"):
    testing.check_attack(variant(step=step, minimal=True), targets=False)
