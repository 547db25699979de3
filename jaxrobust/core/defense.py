"""A defense turns a classifier into another one, `Classifier -> Classifier`, and says how it deserves to be attacked.

A defense has two forms that answer alike. `answer` is what the defended classifier says, and what every verdict is made
with. `adaptive` is what an attack with gradients is handed: the same numbers, with the gradient of somebody who knows
the defense (Athalye et al. 2018, arXiv:1802.00420; Tramèr et al. 2020, arXiv:2002.08347):

  own gradient   the defense is differentiable as it is, and `adaptive` is `answer`
  BPDA           the way back goes through another function, the identity for most transformations of images
  EOT            the defense draws anew for every query; the engine averages the gradients of several draws

Attacks without gradients ask the defended classifier itself. Defenses stack: the first one sees the image first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import jax

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.gradients import bpda
from jaxrobust.core.types import Array


class Defense:
  """A frozen dataclass of parameters; `answer` is written for a batch whose rows have nothing to do with each other.

  Attributes:
    name: in the registry.
    randomized: whether it uses its key.
  """

  name: ClassVar[str] = ""
  randomized: ClassVar[bool] = False

  def weights(self) -> Any:
    """Returns arrays or classifiers of its own, a pytree; read when a classifier is defended."""
    return ()

  def config(self) -> dict[str, Any]:
    """Returns all that decides its answers beside its weights, as plain JSON."""
    return dataclasses.asdict(self)  # type: ignore[call-overload]

  def answer(self, ask: Classifier, weights: Any, images: Array, key: Array | None) -> Array:
    """Returns the logits of the defended classifier, from what it asks the one inside."""
    raise NotImplementedError

  def adaptive(self, ask: Classifier, weights: Any, images: Array, key: Array | None) -> Array:
    """Returns the same logits with the gradient that an adaptive attack follows."""
    return self.answer(ask, weights, images, key)

  @classmethod
  def changes_gradient(cls) -> bool:
    """Tells whether its adaptive form is another one than its own."""
    return cls.adaptive is not Defense.adaptive

  @classmethod
  def view(cls) -> str:
    """Says in a few words what an adaptive attack does."""
    gradient = "BPDA" if cls.changes_gradient() else "own gradient"
    return f"{gradient}, EOT" if cls.randomized else gradient

  def __call__(self, classifier: Classifier) -> Classifier:
    """Returns the classifier defended."""
    own = self.weights()
    members = [leaf for leaf in jax.tree.leaves(own, is_leaf=_is_classifier) if _is_classifier(leaf)]
    inner = dataclasses.replace(classifier, variables=None)
    return Classifier(
      {"network": classifier.variables, "defense": own},
      DefendedApply(self, inner, False),
      classifier.num_classes,
      self.randomized or any(one.randomized for one in (classifier, *members)),
      classifier.input_shape,
      DefendedApply(self, inner, True) if self.changes_gradient() or classifier.adaptive is not None else None,
    )


class ImageDefense(Defense):
  """A defense that changes images, one at a time, before the classifier sees them; BPDA by the identity."""

  def transform(self, image: Array, key: Array | None) -> Array:
    """Returns what the classifier sees in place of an image (H, W, C) in [0, 1]."""
    raise NotImplementedError

  def answer(self, ask: Classifier, weights: Any, images: Array, key: Array | None) -> Array:
    own, rest = split_key(key)
    return ask(_each(self.transform, images, own), rest)

  def adaptive(self, ask: Classifier, weights: Any, images: Array, key: Array | None) -> Array:
    own, rest = split_key(key)
    return ask(_each(bpda(self.transform, self.backward), images, own), rest)

  def backward(self, image: Array, key: Array | None) -> Array:
    """Returns what is differentiated in place of `transform`."""
    del key
    return image


@dataclasses.dataclass(frozen=True)
class DefendedApply:
  """Asks a classifier through a defense; `inner` has no variables."""

  defense: Defense
  inner: Classifier
  knows: bool

  def __call__(self, variables: Any, images: Array, key: Array | None) -> Array:
    if self.defense.randomized and key is None:
      raise InputError(f"the defense {self.defense.name} draws anew for every query: it needs a key with the images")
    inner = dataclasses.replace(self.inner, variables=variables["network"])
    if self.knows:
      return self.defense.adaptive(inner.adaptive_view, variables["defense"], images, key)
    return self.defense.answer(inner, variables["defense"], images, key)


def defend(classifier: Classifier, defenses: Sequence[Defense]) -> Classifier:
  """Returns a classifier behind several defenses; the first one sees the image first."""
  for defense in reversed(defenses):
    classifier = defense(classifier)
  return classifier


def defenses_of(classifier: Classifier) -> tuple[Defense, ...]:
  """Returns the defenses of a classifier, the one that sees the image first at the head."""
  apply = classifier.apply
  return (apply.defense, *defenses_of(apply.inner)) if isinstance(apply, DefendedApply) else ()


def undefended(classifier: Classifier) -> Classifier:
  """Returns the classifier inside all defenses; itself where there is none."""
  while isinstance(classifier.apply, DefendedApply):
    classifier = dataclasses.replace(classifier.apply.inner, variables=classifier.variables["network"])
  return classifier


def ways_to_ignore(classifier: Classifier) -> tuple[str, ...]:
  """Returns how an attack can be oblivious of a classifier's defenses: by their gradient, by images made without them.

  The former where it is another one than that of the adaptive view, by BPDA or by the mean over draws: those of a
  network that draws by itself (RSE), too.
  """
  return _ways(defenses_of(classifier), classifier.adaptive is not None or classifier.randomized)


def ways_to_ignore_defenses(defenses: Sequence[Defense]) -> tuple[str, ...]:
  """Returns the same of defenses around a network that is plain and draws nothing."""
  return _ways(defenses, any(one.changes_gradient() or one.randomized for one in defenses))


def _ways(defenses: Sequence[Defense], naive: bool) -> tuple[str, ...]:
  return (*(("gradient",) if naive else ()), *(("images",) if defenses else ()))


def split_key(key: Array | None) -> tuple[Array | None, Array | None]:
  """Returns two keys of one, or none of none."""
  if key is None:
    return None, None
  first, second = jax.random.split(key)
  return first, second


def _each(transform: Any, images: Array, key: Array | None) -> Array:
  """Applies a function of one image to all, each with a key of its own."""
  if key is None:
    return jax.vmap(lambda image: transform(image, None))(images)
  return jax.vmap(transform)(images, jax.random.split(key, len(images)))


def _is_classifier(leaf: Any) -> bool:
  return isinstance(leaf, Classifier)
