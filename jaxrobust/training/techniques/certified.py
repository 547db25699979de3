"""Certified training: the loss of the worst logits that bounds allow, so that what is learned can be proved.

With m_j a lower bound of the margin f_y - f_j over the ball, the logits -m (0 for the label itself) are worse than
those of any image in it, so CE(-m, y) is an upper bound of the largest loss there.

  ibp        kappa CE(f(x), y) + (1 - kappa) CE(-m, y), m by intervals; Gowal et al. 2018 (arXiv:1810.12715): kappa
             falls from 1 to 1/2 while eps grows from 0
  crown-ibp  the same, m = beta m_CROWN-IBP + (1 - beta) m_IBP; Zhang et al. 2020 (arXiv:1906.06316): beta falls from 1
             to 0 while eps grows
  kw         CE(-m, y), m the dual bound of the convex outer polytope; Wong and Kolter 2018 (arXiv:1711.00851): every
             neuron's own bounds are propagated, which costs as many passes as the network has neurons, so it is for
             small networks (the authors' random projections are not here)

eps grows over `attack_warmup_epochs`. Images stay in [0, 1] in all bounds but those of `kw`, as its authors have it.
Known deviations: kappa and beta follow eps, not a schedule of their own; bounds are taken in training mode, so a
network with batch normalization, whose batch statistics no linear bound covers, is refused by the operation it uses.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from jaxrobust.certify.crown import BoundMethod, lower_bounds
from jaxrobust.certify.program import read_program
from jaxrobust.certify.region import Region
from jaxrobust.core.budget import Budget, check_norm
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.training.technique import TECHNIQUES, Batch, Context, Losses, Network, Objective
from jaxrobust.training.techniques.objectives import soft_cross_entropy

_IBP, _CROWN_IBP = BoundMethod(backward=False), BoundMethod(layers=False)
_KW = BoundMethod(parallel=True, box=False, meet=False, every_row=True)


def worst_logits(classifier: Classifier, batch: Batch, norm: str, eps: Array, method: BoundMethod) -> Array:
  """Returns, per image, the negative lower bounds of the margins of its label; 0 for the label.

  >>> model = Classifier.from_function(lambda x: x[:, 0, 0], num_classes=2)
  >>> images, labels = jnp.array([[[[0.75, 0.25]]]]), jnp.array([0])
  >>> batch = Batch(images, jax.nn.one_hot(labels, 2), labels, jnp.zeros((1, 2)))
  >>> worst_logits(model, batch, "linf", jnp.float32(0.125), _IBP).tolist()
  [[0.0, -0.25]]
  """
  program = read_program(classifier, batch.images.shape[1:])
  classes = jnp.eye(classifier.num_classes)

  def worst(image: Array, label: Array) -> Array:
    region = Region.around(norm, image, eps, method.box)
    bounds = lower_bounds(program, region, classes[label] - classes, method).value
    return jnp.where(jnp.arange(len(classes)) == label, 0.0, -bounds)

  return jax.vmap(worst)(batch.images, batch.labels)


@dataclasses.dataclass(frozen=True)
class BoundedLoss(Objective):
  """The base of the three: the ball, and a clean loss that counts less as the ball grows.

  Attributes:
    eps: the radius at the end of the warm-up.
    norm: linf or l2.
    kappa: the share of the clean loss at the end; all of it at the beginning.
  """

  eps: str | float = "2/255"
  norm: str = "linf"
  kappa: float = 0.5
  num_steps: int = 0

  def __post_init__(self) -> None:
    check_norm(self.norm, ("linf", "l2"))
    if not 0 <= self.kappa <= 1:
      raise InputError(f"kappa is a share of the loss, between 0 and 1; got {self.kappa}")
    Budget.parse(self.eps, self.norm)

  @property
  def budget(self) -> float:
    return Budget.parse(self.eps, self.norm).value

  def _worst(self, classifier: Classifier, batch: Batch, context: Context, eps: Array) -> Array:
    raise NotImplementedError

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    logits, stats = network(batch.images, context.batch_stats)
    clean = soft_cross_entropy(context.margin(logits, batch.targets), batch.targets)

    def bounded(images: Array) -> Array:
      return network(images, context.batch_stats)[0]

    # The weights are closed over: bounds are differentiated by them.
    model = Classifier.from_function(bounded, logits.shape[-1])
    worst = self._worst(model, batch, context, self.budget * context.eps_scale)
    certified = soft_cross_entropy(worst, jax.nn.one_hot(batch.labels, logits.shape[-1]))
    share = 1 - (1 - self.kappa) * context.eps_scale
    return Losses(share * clean + (1 - share) * certified, logits, stats)


@TECHNIQUES.register("ibp")
@dataclasses.dataclass(frozen=True)
class IntervalTraining(BoundedLoss):
  """Interval bound propagation."""

  def _worst(self, classifier: Classifier, batch: Batch, context: Context, eps: Array) -> Array:
    return worst_logits(classifier, batch, self.norm, eps, _IBP)


@TECHNIQUES.register("crown-ibp")
@dataclasses.dataclass(frozen=True)
class CrownIntervalTraining(BoundedLoss):
  """CROWN over the bounds of intervals, which lead at the end.

  Attributes:
    beta: the share of CROWN's bounds at the end; all at the beginning.
  """

  beta: float = 0.0

  def _worst(self, classifier: Classifier, batch: Batch, context: Context, eps: Array) -> Array:
    share = 1 - (1 - self.beta) * context.eps_scale
    tight, loose = (worst_logits(classifier, batch, self.norm, eps, method) for method in (_CROWN_IBP, _IBP))
    return share * tight + (1 - share) * loose


@TECHNIQUES.register("kw")
@dataclasses.dataclass(frozen=True)
class ConvexOuterTraining(BoundedLoss):
  """The dual bound of the convex outer polytope."""

  kappa: float = 0.0

  def _worst(self, classifier: Classifier, batch: Batch, context: Context, eps: Array) -> Array:
    return worst_logits(classifier, batch, self.norm, eps, _KW)
