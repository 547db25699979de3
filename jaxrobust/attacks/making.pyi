"""Written by `python -m jaxrobust.attacks.overloads`; not to be edited."""

# mypy: disable-error-code=overload-overlap

from typing import Any, Literal, overload

from typing_extensions import deprecated

from jaxrobust.attacks.apgd import APGD
from jaxrobust.attacks.apgd_l1 import APGDL1
from jaxrobust.attacks.audit import Audit
from jaxrobust.attacks.bandits import Bandits
from jaxrobust.attacks.boundary import Boundary
from jaxrobust.attacks.cw import CWL2, CWLinf
from jaxrobust.attacks.ddn import DDN
from jaxrobust.attacks.deepfool import DeepFool
from jaxrobust.attacks.ead import EAD
from jaxrobust.attacks.evolutionary import Evolutionary
from jaxrobust.attacks.fab import FAB
from jaxrobust.attacks.fmn import FMN
from jaxrobust.attacks.geoda import GeoDA
from jaxrobust.attacks.hopskipjump import HopSkipJump
from jaxrobust.attacks.lpa import LPA, FastLPA
from jaxrobust.attacks.mim import MIM
from jaxrobust.attacks.nattack import NAttack
from jaxrobust.attacks.nes import NES
from jaxrobust.attacks.opt import OPT
from jaxrobust.attacks.patch import PatchPGD
from jaxrobust.attacks.pgd import PGD
from jaxrobust.attacks.ppgd import PPGD
from jaxrobust.attacks.rays import RayS
from jaxrobust.attacks.recolor import ReColor
from jaxrobust.attacks.rigid import RigidGrid, RigidRandom
from jaxrobust.attacks.schedule import Cascade
from jaxrobust.attacks.sign_opt import SignOPT
from jaxrobust.attacks.signhunter import SignHunter
from jaxrobust.attacks.simba import SimBA
from jaxrobust.attacks.spsa import SPSA
from jaxrobust.attacks.square import Square
from jaxrobust.attacks.stadv import StAdv
from jaxrobust.attacks.surfree import SurFree
from jaxrobust.attacks.uap import UAP
from jaxrobust.attacks.unforeseen.ascent import SceneAscent
from jaxrobust.attacks.zoo import ZOO

class _NoSuchOption:
  """What a known attack with an option that it does not have is: no attack."""

@overload
def make_attack(
  name: Literal["admix"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  step_size: float | None = ...,
  decay: float = ...,
  loss: str = ...,
  mixed: int = ...,
  scales: int = ...,
  portion: float = ...,
) -> MIM: ...
@overload
def make_attack(
  name: Literal["apgd-ce"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  rho: float = ...,
) -> APGD | APGDL1: ...
@overload
def make_attack(
  name: Literal["apgd-dlr"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  rho: float = ...,
) -> APGD | APGDL1: ...
@overload
def make_attack(
  name: Literal["apgd-t"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  rho: float = ...,
) -> APGD | APGDL1: ...
@overload
def make_attack(
  name: Literal["autoae"],
  *,
  norm: str = ...,
  split: bool = ...,
) -> Cascade: ...
@overload
def make_attack(
  name: Literal["autoattack"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  queries: int = ...,
) -> Cascade: ...
@overload
def make_attack(
  name: Literal["autoattack-audit"],
  *,
  norm: str = ...,
  width: float = ...,
  evaluations: float = ...,
) -> Audit: ...
@overload
def make_attack(
  name: Literal["autoattack-plus"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  queries: int = ...,
) -> Cascade: ...
@overload
def make_attack(
  name: Literal["autoattack-rand"],
  *,
  norm: str = ...,
  num_steps: int = ...,
) -> Cascade: ...
@overload
def make_attack(
  name: Literal["bandits"],
  *,
  norm: str = ...,
  queries: int = ...,
  tiles: int | None = ...,
  eta: float | None = ...,
  delta: float | None = ...,
  prior_rate: float | None = ...,
  step_size: float | None = ...,
  loss: str = ...,
) -> Bandits: ...
@overload
def make_attack(
  name: Literal["bim"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  step_size: float | None = ...,
  loss: str = ...,
) -> PGD: ...
@overload
def make_attack(
  name: Literal["boundary"],
  *,
  norm: str = ...,
  queries: int = ...,
  spherical_step: float = ...,
  source_step: float = ...,
  adaptation: float = ...,
  every: int = ...,
  convergence: float = ...,
) -> Boundary: ...
@overload
def make_attack(
  name: Literal["cw"],
  *,
  norm: str = ...,
  binary_search_steps: int | None = ...,
  num_steps: int | None = ...,
  step_size: float | None = ...,
  confidence: float = ...,
  initial_const: float | None = ...,
  abort_early: bool | None = ...,
  warm_start: bool | None = ...,
) -> CWL2 | CWLinf: ...
@overload
def make_attack(
  name: Literal["ddn"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  init_eps: float = ...,
  gamma: float = ...,
  step_size: float = ...,
  final_step_size: float = ...,
  loss: str = ...,
) -> DDN: ...
@overload
def make_attack(
  name: Literal["deepfool"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  overshoot: float = ...,
  candidates: int = ...,
  refine: bool = ...,
) -> DeepFool: ...
@overload
def make_attack(
  name: Literal["dim"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  step_size: float | None = ...,
  decay: float = ...,
  loss: str = ...,
  probability: float = ...,
  smallest: float = ...,
) -> MIM: ...
@overload
def make_attack(
  name: Literal["ead"],
  *,
  norm: str = ...,
  binary_search_steps: int = ...,
  num_steps: int = ...,
  step_size: float = ...,
  beta: float = ...,
  confidence: float = ...,
  initial_const: float = ...,
  abort_early: bool = ...,
) -> EAD: ...
@overload
def make_attack(
  name: Literal["elastic"],
  *,
  num_steps: int = ...,
  step_length: float = ...,
  factor: int = ...,
  loss: str = ...,
) -> SceneAscent: ...
@overload
def make_attack(
  name: Literal["evolutionary"],
  *,
  norm: str = ...,
  queries: int = ...,
  mu: float = ...,
  sigma: float = ...,
  decay: float = ...,
  covariance_rate: float = ...,
  side: int | None = ...,
) -> Evolutionary: ...
@overload
def make_attack(
  name: Literal["fab"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  alpha_max: float = ...,
  eta: float = ...,
  beta: float = ...,
  target_classes: int = ...,
  random_start: bool = ...,
  revisit: bool = ...,
  steer: bool = ...,
) -> FAB: ...
@overload
def make_attack(
  name: Literal["fab-t"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  alpha_max: float = ...,
  eta: float = ...,
  beta: float = ...,
  random_start: bool = ...,
  revisit: bool = ...,
  steer: bool = ...,
) -> FAB: ...
@overload
def make_attack(
  name: Literal["fast-lpa"],
  *,
  num_steps: int = ...,
  loss: str = ...,
  threat: Any = ...,
) -> FastLPA: ...
@overload
def make_attack(
  name: Literal["fgsm"],
  *,
  norm: str = ...,
  loss: str = ...,
) -> PGD: ...
@overload
def make_attack(
  name: Literal["fmn"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  step_size: float = ...,
  final_step_size: float | None = ...,
  gamma: float = ...,
  final_gamma: float = ...,
  loss: str = ...,
) -> FMN: ...
@overload
def make_attack(
  name: Literal["gabor"],
  *,
  num_steps: int = ...,
  step_length: float = ...,
  kernel: int = ...,
  sides: int = ...,
  sigma: float = ...,
  density: float = ...,
  loss: str = ...,
) -> SceneAscent: ...
@overload
def make_attack(
  name: Literal["geoda"],
  *,
  norm: str = ...,
  queries: int = ...,
  frequencies: int = ...,
  sigma: float = ...,
  growth: float = ...,
) -> GeoDA: ...
@overload
def make_attack(
  name: Literal["glitch"],
  *,
  num_steps: int = ...,
  step_length: float = ...,
  lines: int = ...,
  loss: str = ...,
) -> SceneAscent: ...
@overload
def make_attack(
  name: Literal["hopskipjump"],
  *,
  norm: str = ...,
  queries: int = ...,
  probes: int = ...,
  most_probes: int = ...,
  gamma: float = ...,
) -> HopSkipJump: ...
@overload
def make_attack(
  name: Literal["jpeg"],
  *,
  num_steps: int = ...,
  step_length: float = ...,
  block: int = ...,
  loss: str = ...,
) -> SceneAscent: ...
@overload
def make_attack(
  name: Literal["kaleidoscope"],
  *,
  num_steps: int = ...,
  step_length: float = ...,
  shapes: int = ...,
  size: int = ...,
  transparency: float = ...,
  loss: str = ...,
) -> SceneAscent: ...
@overload
def make_attack(
  name: Literal["lpa"],
  *,
  num_steps: int = ...,
  rounds: int = ...,
  loss: str = ...,
  threat: Any = ...,
) -> LPA: ...
@overload
def make_attack(
  name: Literal["mim"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  step_size: float | None = ...,
  decay: float = ...,
  random_start: bool = ...,
  loss: str = ...,
) -> MIM: ...
@overload
def make_attack(
  name: Literal["mm"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  rho: float = ...,
) -> APGD | APGDL1: ...
@overload
def make_attack(
  name: Literal["mm+"],
  *,
  norm: str = ...,
  num_steps: int = ...,
) -> Cascade: ...
@overload
def make_attack(
  name: Literal["mm3"],
  *,
  norm: str = ...,
  num_steps: int = ...,
) -> Cascade: ...
@overload
def make_attack(
  name: Literal["mm5"],
  *,
  norm: str = ...,
  num_steps: int = ...,
) -> Cascade: ...
@overload
def make_attack(
  name: Literal["mm9"],
  *,
  norm: str = ...,
  num_steps: int = ...,
) -> Cascade: ...
@overload
def make_attack(
  name: Literal["nattack"],
  *,
  norm: str = ...,
  queries: int = ...,
  samples: int = ...,
  sigma: float = ...,
  learning_rate: float = ...,
  loss: str = ...,
) -> NAttack: ...
@overload
def make_attack(
  name: Literal["nattack-authors"],
  *,
  norm: str = ...,
  queries: int = ...,
  samples: int = ...,
) -> NAttack: ...
@overload
def make_attack(
  name: Literal["nes"],
  *,
  norm: str = ...,
  queries: int = ...,
  pairs: int = ...,
  sigma: float = ...,
  step_size: float = ...,
  final_step_size: float = ...,
  window: int = ...,
  momentum: float = ...,
  loss: str = ...,
) -> NES: ...
@overload
def make_attack(
  name: Literal["nes-authors"],
  *,
  norm: str = ...,
  queries: int = ...,
  pairs: int = ...,
) -> NES: ...
@overload
def make_attack(
  name: Literal["ni-fgsm"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  step_size: float | None = ...,
  decay: float = ...,
  loss: str = ...,
) -> MIM: ...
@overload
def make_attack(
  name: Literal["opt"],
  *,
  norm: str = ...,
  queries: int = ...,
  directions: int = ...,
  probes: int = ...,
  alpha: float = ...,
  beta: float = ...,
  tolerance: float = ...,
) -> OPT: ...
@overload
def make_attack(
  name: Literal["patch"],
  *,
  num_steps: int = ...,
  locations: int = ...,
  step_length: float = ...,
  loss: str = ...,
) -> PatchPGD: ...
@overload
def make_attack(
  name: Literal["pgd"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  step_size: float | None = ...,
  random_start: bool = ...,
  loss: str = ...,
) -> PGD: ...
@overload
def make_attack(
  name: Literal["pixel"],
  *,
  num_steps: int = ...,
  step_length: float = ...,
  side: int = ...,
  loss: str = ...,
) -> SceneAscent: ...
@overload
def make_attack(
  name: Literal["ppgd"],
  *,
  num_steps: int = ...,
  cg_steps: int = ...,
  exact: bool = ...,
  loss: str = ...,
  threat: Any = ...,
) -> PPGD: ...
@overload
def make_attack(
  name: Literal["rays"],
  *,
  norm: str = ...,
  queries: int = ...,
  tolerance: float = ...,
) -> RayS: ...
@overload
def make_attack(
  name: Literal["recolor"],
  *,
  num_steps: int = ...,
  learning_rate: float = ...,
  smoothness: float = ...,
  loss: str = ...,
) -> ReColor: ...
@overload
def make_attack(
  name: Literal["rigid-grid"],
  *,
  angles: int = ...,
  shifts: int = ...,
  angle: float = ...,
  shift: float = ...,
) -> RigidGrid: ...
@overload
def make_attack(
  name: Literal["rigid-random"],
  *,
  num_steps: int = ...,
  queries: int = ...,
  angle: float = ...,
  shift: float = ...,
) -> RigidRandom: ...
@overload
def make_attack(
  name: Literal["si-ni-fgsm"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  step_size: float | None = ...,
  decay: float = ...,
  loss: str = ...,
  scales: int = ...,
) -> MIM: ...
@overload
def make_attack(
  name: Literal["sign-opt"],
  *,
  norm: str = ...,
  queries: int = ...,
  directions: int = ...,
  probes: int = ...,
  alpha: float = ...,
  beta: float = ...,
  tolerance: float = ...,
) -> SignOPT: ...
@overload
def make_attack(
  name: Literal["signhunter"],
  *,
  norm: str = ...,
  queries: int = ...,
  loss: str = ...,
) -> SignHunter: ...
@overload
def make_attack(
  name: Literal["simba"],
  *,
  norm: str = ...,
  queries: int = ...,
  length: float = ...,
  basis: str = ...,
  frequencies: int | None = ...,
  loss: str = ...,
) -> SimBA: ...
@overload
def make_attack(
  name: Literal["simba-dct"],
  *,
  norm: str = ...,
  queries: int = ...,
  length: float = ...,
  frequencies: int | None = ...,
) -> SimBA: ...
@overload
def make_attack(
  name: Literal["snow"],
  *,
  num_steps: int = ...,
  step_length: float = ...,
  flake: int = ...,
  layers: int = ...,
  grid: int = ...,
  blur: int = ...,
  whitening: float = ...,
  loss: str = ...,
) -> SceneAscent: ...
@overload
def make_attack(
  name: Literal["spsa"],
  *,
  norm: str = ...,
  queries: int = ...,
  pairs: int = ...,
  sigma: float = ...,
  step_size: float | None = ...,
  loss: str = ...,
) -> SPSA: ...
@overload
def make_attack(
  name: Literal["spsa-authors"],
  *,
  queries: int = ...,
  pairs: int = ...,
) -> SPSA: ...
@overload
def make_attack(
  name: Literal["square"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  queries: int = ...,
  p_init: float = ...,
  rescale: bool = ...,
  edges: bool = ...,
  loss: str = ...,
) -> Square: ...
@overload
def make_attack(
  name: Literal["ssa"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  step_size: float | None = ...,
  decay: float = ...,
  loss: str = ...,
  spectra: int = ...,
  rho: float = ...,
  noise: float = ...,
) -> MIM: ...
@overload
def make_attack(
  name: Literal["stadv"],
  *,
  num_steps: int = ...,
  learning_rate: float = ...,
  smoothness: float = ...,
  loss: str = ...,
) -> StAdv: ...
@overload
def make_attack(
  name: Literal["surfree"],
  *,
  norm: str = ...,
  queries: int = ...,
  theta_max: float = ...,
  rho: float = ...,
  bisections: int = ...,
  precision: float = ...,
  basis: str = ...,
) -> SurFree: ...
@overload
def make_attack(
  name: Literal["tim"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  step_size: float | None = ...,
  decay: float = ...,
  loss: str = ...,
  kernel: int = ...,
  sigma: float = ...,
  probability: float = ...,
  smallest: float = ...,
) -> MIM: ...
@overload
def make_attack(
  name: Literal["uap"],
  *,
  norm: str = ...,
  images: int = ...,
  epochs: int = ...,
  batch: int = ...,
  step_size: float = ...,
  loss: str = ...,
) -> UAP: ...
@overload
def make_attack(
  name: Literal["vmi-fgsm"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  step_size: float | None = ...,
  decay: float = ...,
  loss: str = ...,
  neighbors: int = ...,
  beta: float = ...,
) -> MIM: ...
@overload
def make_attack(
  name: Literal["vni-fgsm"],
  *,
  norm: str = ...,
  num_steps: int = ...,
  step_size: float | None = ...,
  decay: float = ...,
  loss: str = ...,
  neighbors: int = ...,
  beta: float = ...,
) -> MIM: ...
@overload
def make_attack(
  name: Literal["wood"],
  *,
  num_steps: int = ...,
  step_length: float = ...,
  resolution: int = ...,
  rings: int = ...,
  power: int = ...,
  loss: str = ...,
) -> SceneAscent: ...
@overload
def make_attack(
  name: Literal["zoo"],
  *,
  norm: str = ...,
  queries: int = ...,
  coordinates: int = ...,
  sigma: float = ...,
  step_size: float = ...,
  binary_search_steps: int = ...,
  initial_const: float = ...,
  confidence: float = ...,
  abort_early: bool = ...,
) -> ZOO: ...
@overload
def make_attack(
  name: Literal["zoo-authors"],
  *,
  queries: int = ...,
  coordinates: int = ...,
) -> ZOO: ...
@overload
@deprecated("this attack has no such option, or not of this type: `jaxrobust list attacks NAME` shows all of them")
def make_attack(
  name: Literal[
    "admix",
    "apgd-ce",
    "apgd-dlr",
    "apgd-t",
    "autoae",
    "autoattack",
    "autoattack-audit",
    "autoattack-plus",
    "autoattack-rand",
    "bandits",
    "bim",
    "boundary",
    "cw",
    "ddn",
    "deepfool",
    "dim",
    "ead",
    "elastic",
    "evolutionary",
    "fab",
    "fab-t",
    "fast-lpa",
    "fgsm",
    "fmn",
    "gabor",
    "geoda",
    "glitch",
    "hopskipjump",
    "jpeg",
    "kaleidoscope",
    "lpa",
    "mim",
    "mm",
    "mm+",
    "mm3",
    "mm5",
    "mm9",
    "nattack",
    "nattack-authors",
    "nes",
    "nes-authors",
    "ni-fgsm",
    "opt",
    "patch",
    "pgd",
    "pixel",
    "ppgd",
    "rays",
    "recolor",
    "rigid-grid",
    "rigid-random",
    "si-ni-fgsm",
    "sign-opt",
    "signhunter",
    "simba",
    "simba-dct",
    "snow",
    "spsa",
    "spsa-authors",
    "square",
    "ssa",
    "stadv",
    "surfree",
    "tim",
    "uap",
    "vmi-fgsm",
    "vni-fgsm",
    "wood",
    "zoo",
    "zoo-authors",
  ],
  **parameters: Any,
) -> _NoSuchOption: ...
@overload
def make_attack(name: str, **parameters: Any) -> Any: ...
