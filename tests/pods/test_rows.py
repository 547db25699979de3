"""Rows without compilers: what is refused and why, the largest size that fits, what is stored, and the command."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jaxrobust.attacks.registry import make_attack
from jaxrobust.core.errors import SliceError
from jaxrobust.core.mesh import make_mesh
from jaxrobust.pods import measure, topology
from jaxrobust.pods.chips import CHIPS
from jaxrobust.pods.forecast import Load, forecast, suite_loads, suite_of
from jaxrobust.pods.hlo import Traffic
from jaxrobust.pods.measure import PodRow, fit
from jaxrobust.pods.store import RowStore, markdown, page
from jaxrobust.pods.work import PodNetwork, Work, evaluation_works
from tests.cli.calling import call

ROW = PodRow("linf-pgd-40", "resnet20", "bfloat16", "highest", "v5e:2x2", 32, of_memory=16e9)
WORK = Work("linf-pgd-40", PodNetwork("resnet20"), lambda rows: None, 32, {}, {})


class Compiler:
  """Says what the compiler of a chip with 16 GB would, for programs of so many bytes per row."""

  def __init__(self, each):
    self.each, self.asked = each, []

  def row(self, work, rows=None):
    rows = rows or work.rows
    self.asked.append(rows)
    memory = 1e8 + self.each * rows
    return replace(ROW, rows=rows, memory=memory, reason="too much" if memory > measure.SHARE * 16e9 else "")


@pytest.mark.parametrize(("each", "most"), [(1e8, 128), (1e9, 8), (4e8, 32), (1e6, 4096), (3e8, 32)])
def test_the_largest_power_of_two_that_fits_is_found_in_few_compilations(each, most):
  compiler = Compiler(each)
  assert fit(compiler, WORK).rows == most
  assert len(compiler.asked) <= 4 and len(set(compiler.asked)) == len(compiler.asked)


def test_what_never_fits_says_why():
  assert fit(Compiler(2e10), WORK).reason == "too much"


def test_an_evaluation_has_steps_exchanges_and_verifications():
  """An attack within a ball, one that wants a start and one whose images are rendered; nothing is compiled."""
  attacks = [make_attack(name) for name in ("pgd", "boundary", "stadv")]
  works = list(evaluation_works(PodNetwork("repvgg_tiny"), attacks, make_mesh()))
  names = [work.name for work in works]
  steps = names[:6:2]
  assert names[1:6:2] == [f"exchange of {name}" for name in steps]
  assert names[6:] == [f"verification, {threat}" for threat in ("linf", "l2", "flow")]
  for work in works:
    assert "sharding" in work.lower(2).as_text()


def test_programs_that_do_not_fit_or_talk_are_refused_in_words():
  assert measure._refusal(WORK, 1e9, 16e9, {}) == ""
  assert "15.0 GB do not fit 90% of 16 GB" in measure._refusal(WORK, 15e9, 16e9, {})
  talk = measure._refusal(WORK, 1e9, 16e9, {"all-gather": Traffic(3, 2_000_000)})
  assert talk == "linf-pgd-40 on resnet20 communicates: 3 all-gather of 2 MB"
  assert not measure._refusal(replace(WORK, silent=False), 1e9, 16e9, {"all-reduce": Traffic(1, 4)})


def test_rows_come_back_from_their_folder_and_are_found_by_what_was_compiled(tmp_path):
  store = RowStore(tmp_path / "pods")
  store.add(replace(ROW, collectives={"all-reduce": [1, 4]}))
  with (tmp_path / "pods" / "programs.jsonl").open("a") as file:
    file.write('{"program": "cut o')
  again = RowStore(tmp_path / "pods")
  assert again.rows == store.rows and again.find(replace(ROW, rows=0), None) == store.rows[0]
  assert again.find(ROW, 64) is None and again.find(replace(ROW, slice="v5e:4x4"), None) is None
  again.write_pages()
  assert "1 all-reduce" in (tmp_path / "pods" / "table.md").read_text()


def test_the_page_shows_reasons_as_text():
  refused = replace(ROW, reason="<b>15 GB</b>")
  assert "&lt;b&gt;15 GB" in page([refused]) and "class=refused" in page([refused])
  assert markdown([ROW]).count("\n") == 3


def test_a_forecast_names_its_bottleneck():
  loads, row = [Load("linf-pgd-40", 1e6, 40)], replace(ROW, seconds=1e-4)
  told = forecast(loads, [row], CHIPS["v5e"], 256)
  assert told.bottleneck == "hosts" and told.hours > told.hosts
  slow = forecast(loads, [replace(row, seconds=10.0)], CHIPS["v5e"], 256, models=10, shares={"linf-pgd-40": 0.5})
  assert slow.bottleneck == "chips" and slow.chips == pytest.approx(1e6 * 40 * 5 * 10 / 32 / 0.4 / 256 / 3600)
  assert slow.cost == pytest.approx(slow.hours * 256 * 1.2) and "bound by chips" in slow.line()


def test_the_loads_of_a_suite_are_its_attacks_and_examples():
  loads = suite_loads(suite_of("oodrb", "cifar10"))
  assert len(loads) > 80 and {load.examples for load in loads} >= {10_000}


@pytest.mark.parametrize(
  ("words", "text"),
  [
    ((), "--arch with --attack or --suite, or --train"),
    (("--arch=resnet20", "--topology=v5e"), "names no slice"),
    (("--arch=resnet2"), "did you mean"),
    (("--arch=resnet20", "--attack=pgdd"), "did you mean"),
    (("--arch=resnet20", "--dtype=float8"), "unknown dtype"),
    (("--arch=resnet20", "--chips=8"), "--suite with --chips"),
    (("--train=nowhere.py",), "nowhere.py"),
  ],
)
def test_bad_input_is_one_line_before_anything_compiles(words, text):
  code, _, err = call("compile", *([words] if isinstance(words, str) else words))
  assert code == 2 and text in err and err.count("\n") == 1


@pytest.mark.parametrize(("slice", "package"), [("v5e:2x2", "jax[tpu]=="), ("h100x8", "jax-cuda12-plugin==")])
def test_a_missing_compiler_is_one_line_with_the_command_that_installs_it(monkeypatch, slice, package):
  monkeypatch.setattr(topology, "_found", lambda package: False)
  code, _, err = call("compile", "--arch=resnet20", f"--topology={slice}")
  assert code == 2 and f"pip install {'' if 'cuda' in package else chr(39)}{package}" in err and err.count("\n") == 1


def test_refusals_end_with_a_code_of_their_own():
  assert SliceError.exit_code == 6
