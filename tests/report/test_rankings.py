"""Only like is ranked with like: the same attacks, the same examples; the rest is listed with the reason."""

import numpy as np
import pytest

from jaxrobust.evaluation.metrics.proportions import Proportion, proportion
from jaxrobust.report.boards import DOUBT, make_boards
from jaxrobust.report.cell_rows import read_cell_rows
from jaxrobust.report.rankings import rankings
from jaxrobust.report.tables import as_csv, as_latex, as_markdown
from jaxrobust.results import Cell, save_result
from jaxrobust.results.exchange import import_results
from jaxrobust.results.folder import open_folder
from tests.realdata import ROOT, needs_data
from tests.report.synthetic import result

pytestmark = pytest.mark.smoke


def attacked(broken, n=1000):
  """A model of which every `broken`-th example breaks."""
  flags = np.arange(n) % broken != 0
  return proportion(flags), flags, ("file.json",)


def test_a_weaker_evaluation_gains_no_rank():
  strong = {"linf-mm5": attacked(3), "linf-autoattack": attacked(2, n=100)}
  evidence = {"strong": strong, "weak": {"linf-mm5": attacked(2)}, "other": {"linf-mm5": attacked(4)}}
  first = rankings(evidence)[0]
  # AutoAttack on 100 images of one model counts for none; under the attack that all share it stands between the others.
  assert (first.attacks, first.n, first.others) == (("linf-mm5",), 1000, {})
  assert list(first.numbers) == ["other", "strong", "weak"]
  assert first.numbers["strong"].value == pytest.approx(np.mean(np.arange(1000) % 3 != 0))


def test_others_are_listed_with_the_reason():
  both = lambda k: {"linf-mm5": attacked(k), "linf-autoattack": attacked(k)}
  published = {name: (Proportion(0.4, 0.3, 0.5, 5000), None, ("x",)) for name in ("linf-mm5", "linf-autoattack")}
  few = {"linf-mm5": attacked(3), "linf-autoattack": attacked(3, n=100)}
  evidence = {"a": both(2), "b": both(3), "c": both(5), "d": both(7), "few": few, "paper": published}
  one = next(r for r in rankings(evidence) if len(r.attacks) == 2)
  assert one.n == 1000 and list(one.numbers) == ["d", "c", "b", "a"]
  assert one.others["few"] == "linf-autoattack on 100 of 1,000 examples"
  assert one.others["paper"] == "published numbers, not of 1,000 examples"
  evidence["none"] = {"linf-mm5": attacked(3)}
  one = next(r for r in rankings(evidence) if len(r.attacks) == 2)
  assert one.others["none"] == "no linf-autoattack"


def test_the_worst_case_is_that_of_each_example_on_common_examples():
  first, second = np.arange(60) % 2 == 0, np.arange(100) % 3 == 0
  evidence = {"m": {"a": (proportion(first), first, ()), "b": (proportion(second), second, ())}}
  (one,) = rankings(evidence)
  assert one.n == 60 and one.numbers["m"] == proportion(first & second[:60])


def test_few_examples_of_one_model_do_not_shrink_all():
  evidence = {f"m{k}": {"a": attacked(k + 2)} for k in range(6)} | {"small": {"a": attacked(2, n=10)}}
  one = rankings(evidence)[0]
  assert one.n == 1000 and one.others == {"small": "a on 10 of 1,000 examples"}


def test_equal_numbers_share_a_rank():
  evidence = {"a": {"x": attacked(2)}, "b": {"x": attacked(2)}, "c": {"x": attacked(5)}, "d": {"x": attacked(100)}}
  assert rankings(evidence)[0].places() == {"d": 1, "c": 2, "a": 3, "b": 3}


def test_tables_show_rank_n_and_attacks(tmp_path):
  flags = lambda k, n: {"correct": np.ones(n, bool), "robust": np.arange(n) % k != 0}
  for model, k, n in (("good", 5, 100), ("bad", 2, 100), ("short", 9, 10)):
    for attack, eps in (("linf-pgd-20", "8/255"), ("none", None)):
      save_result(tmp_path, result(Cell(model=model, data="d", attack=attack, eps=eps, n=n), flags(k, n)))
  board = next(b for b in make_boards(read_cell_rows(open_folder(tmp_path)).rows) if b.threat)
  text = as_markdown(board)
  assert "| 1 | good | 80.0 |" in text and "| 2 | bad | 50.0 |" in text and "|  | short | – |" in text
  assert "Ranked by PGD-20 on 100 examples" in text and "linf-pgd-20 on 10 of 100 examples" in text.replace("\\", "")
  assert r"1 & good & \textbf{80.0}" in as_latex(board)
  ranks = {line.split(",")[3]: line.split(",")[-1] for line in as_csv(board).splitlines()[1:]}
  assert ranks == {"good": "1", "bad": "2", "short": ""}


@pytest.mark.data
@needs_data
def test_what_robustbench_publishes_is_ranked_by_autoattack(tmp_path):
  import_results("robustbench", ROOT / "published" / "robustbench_model_info", tmp_path)
  rows = read_cell_rows(open_folder(tmp_path)).rows
  board = next(b for b in make_boards(rows) if (b.data, b.threat, b.eps) == ("cifar10", "linf", "8/255"))
  assert board.rankings[0].attacks == ("linf-autoattack",) and board.rankings[0].n == 10_000
  assert board.rankings[0].others == {"Kang2021Stable.Linf": DOUBT}  # The other one has a budget of its own.
  about = {row.cell.model: row.about for row in rows}
  assert {model for model, known in about.items() if known.get("unreliable")} == {
    "Kang2021Stable.Linf", "Xiao2020Enhancing.Linf",
  }  # fmt: skip
  assert about["Carmon2019Unlabeled.Linf"]["venue"] == "NeurIPS 2019"
  assert about["Carmon2019Unlabeled.Linf"]["extra_data"] is True
