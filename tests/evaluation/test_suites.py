"""Suites have the cells their papers ask for, and name each of them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.evaluation.suites.entry import attack_entry, clean_entry, targeted
from jaxrobust.evaluation.suites.report import Report, SuiteCell
from jaxrobust.evaluation.suites.suite import SUITES, CascadeSetting, Part, Setting, make_suite, title_of
from jaxrobust.evaluation.suites.summary import query_findings
from jaxrobust.models.weights import portable

pytestmark = pytest.mark.smoke


def titles(suite: str, data: str = "digits32", **setting: object) -> list[str]:
  suite = f"{suite},scaled" if suite.startswith("robustart") and data != "imagenet" else suite
  asked = make_suite(suite, Setting(data, **setting))  # type: ignore[arg-type]
  return [title_of(part, entry) for part in asked.parts for entry in part.entries]


@pytest.mark.parametrize("data", ["cifar10", "imagenet", "digits32"])
def test_oodrb_has_one_id_and_79_shifted_evaluations(data):
  asked = make_suite("oodrb", Setting(data))
  attacked = dict.fromkeys(("id", "natural", "corruption", "threat"), 0)
  for part in asked.parts:
    attacked[part.group] += sum(entry.attack == "linf-mm5" for entry in part.entries if part.group != "threat")
  assert attacked == {"id": 1, "natural": 4, "corruption": 75, "threat": 0}
  threats = [entry.title for part in asked.parts if part.group == "threat" for entry in part.entries]
  assert len(threats) >= 2 and threats[0].startswith("linf-mm5@") and threats[1].startswith("l2-mm5@")


def test_stored_corruptions_are_data_sets_and_generated_ones_are_conditions():
  assert "cifar10-c:fog-3/clean/none" in titles("oodrb", "cifar10")
  assert "cifar10/fog-3/none" in titles("oodrb,generated", "cifar10")
  assert "npz:mine.npz/fog-3/none" in titles("oodrb", "npz:mine.npz")


def test_robustart_has_eight_attacks_at_three_budgets():
  found = titles("robustart")
  for budget in ("0.5/255", "2/255", "8/255"):
    assert f"digits32/clean/linf-autoattack@{budget}" in found
  assert sum("/clean/l1-pgd-20" in title for title in found) == 3
  assert sum("/sequence-" in title for title in found) == 10 and sum("/system-" in title for title in found) == 33
  assert "digits32-o/clean/none" in found and "digits32-a/clean/none" in found


def test_ares_has_both_curves_targeted_and_untargeted_in_both_norms():
  found = titles("ares")
  for norm in ("linf", "l2"):
    for goal in ("", ",targeted"):
      assert f"digits32/clean/{norm}-bim-20,step_size=0.15-minimum-budget{goal}" in found
      assert f"digits32/clean/{norm}-mim-20,step_size=0.15{goal}@{'8/255' if norm == 'linf' else '1.0'}" in found
      for name in ("nes", "spsa", "nattack"):
        assert f"digits32/clean/{norm}-{name}-20000-minimum-budget{goal}" in found
        assert f"digits32/clean/{norm}-{name}-20000{goal}@{'8/255' if norm == 'linf' else '1.0'}" in found
      assert f"digits32/clean/l2-zoo-20000{goal}" in found
    assert f"digits32/clean/{norm}-deepfool-100" in found
  for name in ("boundary", "evolutionary"):
    assert {f"digits32/clean/l2-{name}-20000", f"digits32/clean/l2-{name}-20000,targeted"} <= set(found)


def test_ares_bench_has_ten_data_sets_and_an_autoattack_curve():
  asked = make_suite("ares-bench", Setting("imagenet"))
  sets = {part.data.partition(":")[0] for part in asked.parts}
  assert len(sets) == 10 and {"imagenet-real", "imagenet-v", "stylized-imagenet", "imagenet-c"} <= sets
  found = titles("ares-bench", "imagenet")
  assert "imagenet/clean/linf-pgd-100,step_size=0.25@4/255" in found and "imagenet/cutoff-30/none" in found
  assert "imagenet/clean/l2-pgd-100,step_size=2@0.5" in found, "steps of 1.0, twice the budget"
  assert "imagenet/clean/linf-autoattack-minimum-budget" in found


def test_nas_cell_asks_for_matrices_everywhere():
  asked = make_suite("nas-cell", Setting("cifar10"))
  entries = [entry for part in asked.parts for entry in part.entries]
  assert all(entry.matrices for entry in entries) and len(entries) == 1 + 11 + 3 * 7 + 75
  # The paper has no corruptions of ImageNet16-120.
  assert {part.group for part in make_suite("nas-cell", Setting("imagenet16-120")).parts} == {"id"}


@pytest.mark.parametrize("suite", ["oodrb", "robustart", "ares", "ares-bench", "nas-cell", "sensitivity", "unforeseen"])
def test_small_forms_are_smaller_and_cells_have_one_name_each(suite):
  assert suite in SUITES
  small, whole = titles(f"{suite},small"), titles(suite)
  # The clean cell may stand for more than one thing: what outliers and filtered images are compared with.
  assert {title for title in small if small.count(title) > 1} <= {"digits32/clean/none"}
  assert len(set(small)) < len(set(whole))


def test_one_cell_is_chosen_by_its_name():
  asked = make_suite("oodrb", Setting("digits32"))
  one = asked.only("digits32/fog-3/linf-mm5@8/255")
  assert [title_of(part, entry) for part in one.parts for entry in part.entries] == ["digits32/fog-3/linf-mm5@8/255"]
  assert len(asked.only("digits32-*/clean/none").parts) == 4
  with pytest.raises(InputError, match="no cell of oodrb matches"):
    asked.only("digits32/fog-6/*")


@pytest.mark.parametrize(
  ("suite", "asked"),
  [
    ("ares-bench", {"eps": "8/255"}),
    ("ares-bench", {"norm": "l2"}),
    ("ares", {"eps": "8/255"}),
    ("robustart", {"eps": "8/255"}),
    ("oodrb", {"eps": "8/255"}),
    ("nas-cell", {"eps": "8/255"}),
    ("unforeseen", {"eps": "8/255"}),
    ("robustart-small", {"norm": "l2"}),
  ],
)
def test_the_numbers_of_a_paper_cannot_be_asked_for(suite, asked):
  setting = Setting.of("imagenet", asked.get("norm"), asked.get("eps"))
  with pytest.raises(InputError, match=f"suite '{suite}' has its paper's own .*: leave --(norm|eps) out, or run "):
    make_suite(suite, setting)
  assert make_suite(suite, Setting.of("imagenet", None, None)).parts


def test_oodrb_has_a_budget_for_each_data_set_and_norm_of_the_paper():
  first = lambda data, norm: make_suite("oodrb", Setting.of(data, norm, None)).parts[0].entries[1].title
  assert first("cifar10", "linf") == "linf-mm5@8/255" and first("cifar10", "l2") == "l2-mm5@0.5"
  assert first("imagenet", "linf") == "linf-mm5@4/255"
  with pytest.raises(InputError, match="no l2 on imagenet"):
    first("imagenet", "l2")
  assert make_suite("oodrb", Setting.of("digits32", None, "4/255")).parts[0].entries[1].title == "linf-mm5@4/255"


def test_budgets_of_224_pixels_are_scaled_by_name_or_refused():
  with pytest.raises(InputError, match="break everything at 32: run robustart,scaled"):
    make_suite("robustart", Setting("cifar10"))
  with pytest.raises(InputError, match="robustart,scaled"):
    make_suite("robustart-large", Setting("npz:mine.npz", side=32))
  found = titles("robustart", "cifar10")
  # 1600 / 49 and 8 / 7: as much of each pixel as at 224.
  assert "cifar10/clean/l1-pgd-20,step_size=0.075@32.65" in found and "cifar10/clean/l2-ddn-10@1.143" in found
  assert "imagenet/clean/l1-pgd-20,step_size=0.075@1600" in titles("robustart", "imagenet")


def test_normalized_l2_follows_the_size_of_the_images():
  assert any(title.endswith("@12.269") for title in titles("ares", "imagenet"))
  assert any(title.endswith("@16.377") for title in titles("ares", "imagenet", side=299))


def test_how_many_cells_a_paper_has_is_known_when_only_some_are_asked_for():
  asked = make_suite("oodrb", Setting("cifar10"))
  some = asked.only("cifar10-c:fog-*/clean/none")
  assert len(some.parts) == 5 and some.expected("corruption", False) == 75
  assert asked.expected("threat", True) == 6 and asked.expected("natural") == 8


def test_unknown_suites_and_options_are_refused():
  with pytest.raises(UnknownNameError, match="did you mean 'oodrb'"):
    make_suite("oodrp", Setting("digits32"))
  with pytest.raises(UnknownNameError, match="unknown option of suite 'oodrb' 'smal'; did you mean 'small'"):
    make_suite("oodrb,smal", Setting("digits32"))
  with pytest.raises(InputError, match="plain set of attacks"):
    make_suite("basic,small", Setting("digits32"))
  with pytest.raises(InputError, match="conditions of its own"):
    make_suite("oodrb", Setting("digits32", condition="fog-3"))
  assert make_suite("ares-attacks", Setting("digits32")).parts


@pytest.mark.parametrize("suite", ["ares", "ares-defenses"])
def test_another_number_of_queries_is_asked_for_by_name(suite):
  asked = make_suite(f"{suite},queries=2000", Setting("cifar10"))
  found = [title_of(part, entry) for part in asked.parts for entry in part.entries]
  usual = titles(suite, "cifar10")
  assert found == [title.replace("-20000", "-2000") for title in usual] and found != usual
  assert asked.setting.suffix == "-2000-queries"
  for text, reason in (("queries=", "needs an integer"), ("queries=2e3", "got '2e3'"), ("queries=0", "at least 1")):
    with pytest.raises(InputError, match=reason):
      make_suite(f"{suite},{text}", Setting("cifar10"))
  with pytest.raises(InputError, match="suite 'oodrb' has no option 'queries'"):
    make_suite("oodrb,queries=2000", Setting("cifar10"))


def test_the_network_of_perceptual_bounds_is_asked_for_by_name():
  shipped = portable.SHIPPED / "cifar10-alexnet-half" / "features.npz"
  for text, suffix, name in (
    ("self", "-lpips-self", "lpips-self"),
    (f"alexnet-cifar:{shipped}", "-lpips-alexnet-cifar", "lpips-alexnet-cifar.912787"),
  ):
    asked = make_suite(f"oodrb,lpips={text}", Setting("cifar10"))
    bounded = [entry.attack for part in asked.parts for entry in part.entries if entry.attack.startswith("lpips-")]
    assert bounded == [f"{name}-ppgd-40", f"{name}-lpa-200"] and asked.setting.suffix == suffix
    assert f"PPGD and LPA are bounded by {name}, which is not known to be the paper's network" in asked.notes
  with pytest.raises(UnknownNameError, match="did you mean 'lpips-alexnet'"):
    make_suite("oodrb,lpips=alexnett", Setting("cifar10"))
  with pytest.raises(InputError, match="suite 'unforeseen' has no option 'lpips'"):
    make_suite("unforeseen,lpips=self", Setting("cifar10"))


@pytest.mark.parametrize(
  ("stages", "norm", "eps", "title"),
  [
    ("pixel", None, "5", "mosaic-pixel-60@5"),
    ("stadv,num_steps=4", None, "0.05", "flow-stadv-4@0.05"),
    ("pgd", "l2", None, "l2-pgd-40@0.5"),
    ("pixel", None, None, "mosaic has no usual budget: pass --eps"),
    ("pixel", "l2", "5", "mosaic is no norm: leave --norm out"),
    ("pgd", None, "5", r"eps 5 is more than 1, .* did you mean 5/255\?"),
  ],
)
def test_cascades_of_other_threats_have_their_own_budgets(stages, norm, eps, title):
  asked = lambda: make_suite("cascade", Setting.of("digits32", norm, eps, cascade=CascadeSetting(stages)))
  if " " in title:
    with pytest.raises(InputError, match=title):
      asked()
  else:
    assert asked().parts[0].entries[1].title == title


def test_unforeseen_is_eight_attacks_at_three_distortions_and_their_mean():
  asked = make_suite("unforeseen", Setting("cifar10"))
  found = titles("unforeseen", "cifar10")
  assert len(found) == 1 + 3 * (8 + 1)
  assert {"cifar10/clean/rings-wood-70@0.05", "cifar10/clean/flakes-snow-20@5"} <= set(found)
  assert "cifar10/clean/linf-pgd-50,step_size=0.255@8/255" in found, "steps of 0.008"
  cells, rng = [], np.random.default_rng(0)
  for part in asked.parts:
    for entry in part.entries:
      flags = rng.uniform(size=20) < 0.8
      result = SimpleNamespace(examples={"robust": flags, "correct": flags | True}, summary={})
      cells.append(SuiteCell(part, entry, result))
  metrics = asked.metrics(Report("net", asked, tuple(cells)))["metrics"]
  medium = [cell.result.examples["robust"] for cell in cells if cell.part.group == "medium"]
  assert len(medium) == 8 and metrics["UA2 medium"] == pytest.approx(np.mean(medium))
  assert metrics["worst of the eight, medium"] == pytest.approx(np.all(medium, axis=0).mean())
  assert metrics["UA2"] == pytest.approx(np.mean([metrics[f"UA2 {level}"] for level in ("low", "medium", "high")]))
  some = Report("net", asked, tuple(cells[:-3]))
  metrics = asked.metrics(some)["metrics"]
  assert metrics["UA2 high"]["cells"] == 6 and "UA2" not in metrics, "what is not whole says so"


def test_a_query_attack_that_beats_the_gradients_beside_it_is_a_finding():
  def cell(entry, *robust):
    flags = np.array(robust, bool)
    result = SimpleNamespace(examples={"robust": flags, "nan": ~flags & False}, cell=SimpleNamespace(n=len(flags)))
    return SuiteCell(Part("digits32", "none", (entry,), "g"), entry, result)

  pgd, bim, nes = (attack_entry(name, "8/255") for name in ("pgd", "bim", "nes"))
  gradients = [cell(pgd, 1, 1, 0), cell(bim, 1, 0, 1)]
  find = lambda *cells: [(item["cell"], item["examples"]) for item in query_findings(SimpleNamespace(cells=cells))]
  assert find(*gradients, cell(nes, 0, 0, 0)) == [("linf-nes-20000@8/255", 1)]
  assert find(*gradients, cell(nes, 1, 0, 0)) == [] and find(cell(nes, 0, 0, 0)) == []
  other = [attack_entry("nes", "4/255"), attack_entry("nes", "8/255", norm="l2"), targeted(nes), clean_entry()]
  assert find(*gradients, *(cell(entry, 0, 0, 0) for entry in other)) == []


def test_a_minimal_query_attack_is_compared_at_the_budgets_beside_it():
  def cell(entry, **examples):
    flags = np.zeros(3, bool)
    arrays = {"correct": ~flags, "nan": flags, **{name: np.array(rows) for name, rows in examples.items()}}
    return SuiteCell(
      Part("digits32", "none", (entry,), "g"), entry, SimpleNamespace(examples=arrays, cell=SimpleNamespace(n=3))
    )

  bim, cw = attack_entry("bim", "1.0", norm="l2"), attack_entry("cw")
  boundary = attack_entry("boundary", queries=2000)
  find = lambda *cells: [(item["cell"], item["examples"]) for item in query_findings(SimpleNamespace(cells=cells))]
  stands = cell(bim, robust=[True, True, False])
  near, far = (cell(boundary, distance=rows) for rows in ([0.9, 0.5, 0.4], [1.1, 3.0, 0.4]))
  assert find(stands, near) == [("l2-boundary-2000@1.0", 2)] and find(stands, far) == []
  assert find(stands, near, cell(cw, distance=[0.8, 1.2, 0.3])) == [("l2-boundary-2000@1.0", 1)]
  assert find(near, cell(cw, distance=[2.0, 2.0, 2.0])) == [], "no budget to compare at"
