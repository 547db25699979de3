"""What there is to know of an attack before it is run: parameters with their units, norms, goals, access, cost, source.

Everything but the meanings of parameters is asked of the attack itself; a test holds that every parameter has one.
"""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any, NamedTuple

from jaxrobust.attacks.losses import LOSSES
from jaxrobust.attacks.registry import ATTACKS, parameters_of
from jaxrobust.attacks.schedule import Schedule, as_schedule, loss_name
from jaxrobust.core.contract import contract_of
from jaxrobust.core.errors import JaxrobustError

_NORMS = ("linf", "l2", "l1")
_RELATIVE = "length of a step, relative to eps: 0.25 at eps 8/255 is 2/255"
# Meanings that hold for every attack with a parameter of the name, unless it has one of its own below.
_MEANINGS = {
  "norm": "of the perturbation",
  "num_steps": "steps at the most",
  "queries": "model evaluations of an image at the most",
  "step_size": _RELATIVE,
  "step_length": "of a step, in the unit of what is attacked, whatever the budget",
  "final_step_size": "what the step size falls to, in the same unit",
  "random_start": "begin at a random point of the ball instead of the image",
  "loss": "what is climbed: ce, dlr, margin, …",
  "decay": "of the momentum, 0 for none",
  "rho": "share of improving steps below which the step size is halved",
  "confidence": "margin in logits that a success must have",
  "initial_const": "first value of the trade-off constant c",
  "binary_search_steps": "values of c that are tried",
  "abort_early": "end a round whose loss has stopped falling, for each image by itself",
  "sigma": "size of the random differences, in pixel values of [0, 1]",
  "pairs": "antithetic directions of an estimate, two evaluations each",
  "frequencies": "lowest cosines along a side that are searched; all where None",
  "tolerance": "at which a bisection ends, in the norm",
  "probes": "directions of an estimate",
  "directions": "random directions that the search starts from",
  "alpha": "first step along the estimate",
  "beta": "spacing of finite differences",
  "scales": "copies of the image, each half as bright as the last",
  "neighbors": "points around the image whose gradients are averaged",
  "probability": "with which a view is taken",
  "smallest": "side of the smallest view over that of the image",
  "overshoot": "how far beyond the boundary to go, relative to the distance",
  "basis": "of the search: pixel or dct",
  "gamma": "by which the radius grows or shrinks",
  "final_gamma": "what gamma falls to",
  "threat": "the network whose features measure; by default the attacked one's, for commands lpips-alexnet:FILE",
}
_OWN = {
  "cw": {
    "num_steps": "steps for each value of c",
    "step_size": "Adam's learning rate: l2 in tanh space, linf relative to tau",
    "warm_start": "go on from the last point for a new c (l2)",
  },
  "ead": {
    "num_steps": "steps for each value of c",
    "step_size": "of proximal gradient descent, in pixel values",
    "beta": "weight of the l1 norm beside l2",
  },
  "autoattack-audit": {
    "width": "percentage points, half the interval at which the sample is large enough",
    "evaluations": "forward passes in all at which it ends all the same; 0 for no bound",
  },
  "autoae": {"split": "nine targets share the steps of an attack, instead of taking them each"},
  "ddn": {"init_eps": "first radius, in l2", "step_size": "first length of a step, in l2"},
  "fmn": {"step_size": "first length of a step, in l2 of the pixel values"},
  "deepfool": {"candidates": "classes whose boundaries are looked at", "refine": "bisect back to the boundary"},
  "fab": {
    "alpha_max": "largest share of the way back to the image",
    "eta": "extrapolation of a step",
    "beta": "backward step after a success",
    "target_classes": "most likely classes that are looked at",
    "revisit": "return to the best point at times",
    "steer": "choose the boundary by the best point",
  },
  "square": {
    "p_init": "share of the pixels in the first squares",
    "rescale": "follow the schedule of 10,000 steps whatever their number",
    "edges": "squares may reach the border",
  },
  "nes": {"window": "scores that are compared before the step is halved", "momentum": "of the estimates, 0 for none"},
  "nattack": {"samples": "of the distribution, for a step", "learning_rate": "of its mean, in tanh space"},
  "bandits": {
    "tiles": "along a side, of the prior",
    "eta": "length of a finite difference, in pixel values",
    "delta": "exploration around the prior",
    "prior_rate": "learning rate of the prior",
  },
  "zoo": {"coordinates": "for a step", "step_size": "Adam's learning rate, in pixel values"},
  "simba": {"length": "of a step along a vector of the basis, in pixel values"},
  "boundary": {
    "spherical_step": "first step around the image, relative to the distance",
    "source_step": "first step toward the image, relative to the distance",
    "adaptation": "factor by which steps grow or shrink",
    "every": "steps between adaptations",
    "convergence": "source step at which the walk ends",
  },
  "evolutionary": {
    "mu": "first step toward the image, relative to the distance",
    "sigma": "of the mutations, relative to the distance",
    "decay": "of the path of successes",
    "covariance_rate": "learning rate of the covariance",
    "side": "of the small image that mutations are drawn in",
  },
  "hopskipjump": {"most_probes": "to which their number grows", "gamma": "of the bisection's threshold"},
  "geoda": {"growth": "of the probes from step to step", "sigma": "of the probes, relative to the norm"},
  "surfree": {
    "theta_max": "largest angle, in degrees",
    "rho": "by which it adapts",
    "bisections": "of an angle",
    "precision": "of the bisection, relative",
  },
  "admix": {"mixed": "other images that are mixed in", "portion": "of them"},
  "ssa": {"spectra": "copies for a gradient", "rho": "change of the frequencies", "noise": "in pixel values"},
  "tim": {"kernel": "pixels along a side, of the smoothing", "sigma": "of the smoothing, in pixels"},
  "lpa": {
    "num_steps": "steps of a round",
    "rounds": "each with ten times the weight of the bound, where it was left",
  },
  "ppgd": {
    "cg_steps": "iterations of conjugate gradients at the most",
    "exact": "products with the Jacobian by forward derivatives instead of differences",
  },
  "recolor": {"learning_rate": "Adam's, in color", "smoothness": "weight of differences between neighbors"},
  "stadv": {
    "learning_rate": "Adam's, in coordinates from -1 to 1",
    "smoothness": "weight of differences between neighbors",
  },
  "rigid": {
    "angles": "of the grid",
    "shifts": "of the grid, along each side",
    "angle": "largest rotation, in degrees",
    "shift": "largest translation, in sides of the image",
    "num_steps": "motions that are tried",
  },
  "patch": {
    "num_steps": "steps at one place",
    "locations": "places that are tried, with a new content each",
    "step_length": "in pixel values",
  },
  "jpeg": {"block": "pixels along a side, of a block"},
  "elastic": {"factor": "pixels along a side, for each vector of the field"},
  "wood": {
    "resolution": "offsets along a side",
    "rings": "between the middle and an edge",
    "power": "root that is taken of the sine: the higher, the thinner rings are",
  },
  "glitch": {"lines": "bands of the image"},
  "pixel": {"side": "of a square, in pixels"},
  "gabor": {
    "kernel": "pixels along a side, of a wave",
    "sides": "directions of waves",
    "sigma": "of the waves' decay, in sides of the kernel",
    "density": "share of places that have a wave",
  },
  "snow": {
    "flake": "pixels along a side, of a flake",
    "layers": "of flakes, each of its own form",
    "grid": "one place in grid² has a flake",
    "blur": "pixels along a side that a flake is blurred over",
    "whitening": "of the image below the snow, from 0 to 1",
  },
  "kaleidoscope": {
    "shapes": "on the image",
    "size": "of a shape, in pixels",
    "transparency": "of shapes, from 0 to 1",
  },
  "uap": {"images": "that it is trained on", "epochs": "over them", "batch": "images of a step"},
  "vmi-fgsm": {"beta": "side of the neighborhood, relative to eps"},
}


class Parameter(NamedTuple):
  """A parameter of an attack, as `make_attack` takes it."""

  name: str
  kind: str
  default: str
  meaning: str


class AttackCard(NamedTuple):
  """All that is known of an attack by name; `cost` is in forward and backward passes of a step.

  `norms` are those it can be made for, or the name of its own threat where that is no norm.
  """

  name: str
  summary: str
  parameters: tuple[Parameter, ...]
  norms: tuple[str, ...]
  goals: str
  access: str
  finds: str
  cost: str
  source: str


def describe_attack(name: str) -> AttackCard:
  """Returns the card of an attack.

  >>> card = describe_attack("pgd")
  >>> card.norms, card.access, card.cost
  (('linf', 'l2', 'l1'), 'gradient', '40 steps of 1 forward and 1 backward')
  >>> [p.meaning for p in card.parameters if p.name == "step_size"]
  ['length of a step, relative to eps: 0.25 at eps 8/255 is 2/255']
  >>> [describe_attack(name).goals for name in ("pgd", "apgd-dlr", "apgd-t")]
  ['untargeted, targeted', 'untargeted', 'targeted']
  """
  build = ATTACKS[name]
  parameters = tuple(
    Parameter(key, _kind(given.annotation), _default(name, key, given.default), meaning_of(name, key))
    for key, given in parameters_of(name).items()
  )
  attack = build()
  schedule = as_schedule(attack)
  stages = tuple(stage.attack for stage in schedule.stages)
  contracts = [contract_of(stage) for stage in stages]
  cascade = schedule is attack
  return AttackCard(
    name,
    (inspect.getdoc(build) or "").split("\n")[0],
    parameters,
    tuple(norm for norm in _NORMS if _takes(build, norm)) or (stages[0].threat.name,),
    _goals(schedule),
    ", ".join(dict.fromkeys(contract.access for contract in contracts)),
    "the closest success" if all(contract.minimal for contract in contracts) else "a success within eps",
    f"{len(contracts)} attacks over the survivors" if cascade else _cost(contracts[0]),
    _source(build),
  )


def meaning_of(attack: str, parameter: str) -> str:
  """Returns what a parameter of an attack is; that of its plain form for variants (`nes-authors`, `fab-t`)."""
  for own in (attack, *(name for name in _OWN if attack.startswith(f"{name}-")), *_RELATIVES.get(attack, ())):
    if parameter in _OWN.get(own, {}):
      return _OWN[own][parameter]
  return _MEANINGS.get(parameter, "")


_RELATIVES = {"vni-fgsm": ("vmi-fgsm",)}


def _kind(annotation: Any) -> str:
  return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(name: str, key: str, default: Any) -> str:
  """Returns the default as the attack has it: one that depends on others is asked of it."""
  if default is not None:
    return f"{default:g}" if isinstance(default, float) else str(default)
  made = ATTACKS[name]()
  known = vars(made)
  value = known.get("steps") if key == "num_steps" and "steps" in known else known.get(key)
  return "None" if value is None else f"{value:g} by default" if isinstance(value, float) else f"{value} by default"


def _takes(build: Any, norm: str) -> bool:
  if "norm" not in inspect.signature(build).parameters:
    return bool(build().threat.name == norm)
  try:
    build(norm=norm)
  except JaxrobustError:
    return False
  return True


def _goals(schedule: Schedule) -> str:
  """Returns what may be asked for; a loss by name may know one goal alone."""
  if any(stage.rank is not None for stage in schedule.stages):
    return "untargeted (chooses its own targets)"
  losses = [loss_name(stage.attack) for stage in schedule.stages]
  kinds = {LOSSES[loss].target for loss in losses if loss is not None}
  return "targeted" if "required" in kinds else "untargeted" if "ignored" in kinds else "untargeted, targeted"


def _cost(contract: Any) -> str:
  if contract.max_queries is not None:
    return f"{contract.max_queries:,} queries at the most"
  passes = f"{contract.cost.forward} forward"
  passes += f" and {contract.cost.backward} backward" if contract.cost.backward else ""
  return f"{contract.num_steps:,} steps of {passes}"


def _source(build: Any) -> str:
  """Returns the papers that the attack's file names."""
  text = sys.modules[build.__module__].__doc__ or ""
  return ", ".join(dict.fromkeys(re.findall(r"arXiv:\d{4}\.\d{4,5}", text))) or "see its file"
