"""What can be recomputed from published numbers: OODRobustBench's boards and tables, RobustBench, CIFAR-10.1."""

from __future__ import annotations

import csv
import pathlib

import numpy as np
import pytest

import jaxrobust
from jaxrobust.analysis.agreement_line import estimate_accuracy, pairwise_agreement
from jaxrobust.analysis.degradation import degradation
from jaxrobust.analysis.effective import PUBLISHED_LINES, effective_robustness
from jaxrobust.analysis.filters import apply_filter
from jaxrobust.analysis.lines import fit_line
from jaxrobust.analysis.matching import gap, read_beside, same_models
from jaxrobust.analysis.ranking import kendall
from jaxrobust.analysis.trends import column_pairs, fit_trends
from jaxrobust.analysis.zoo import read_csv
from tests import realdata

PUBLISHED = realdata.ROOT / "published"
TABLES = pathlib.Path(__file__).parents[1] / "golden" / "oodrobustbench_tables.csv"

needs_published = pytest.mark.skipif(
  not PUBLISHED.is_dir(), reason="published results not found; set JAXROBUST_DATA to the folder that holds them"
)


def board(data):
  return read_csv(PUBLISHED / f"oodrobustbench_{data}_Linf.csv")


# (data, x, y): n, slope, its error, intercept, R², limit, from scipy's linregress on the boards' rows.
LINES = {
  ("cifar10", "ID accuracy", "OOD_d accuracy"): (65, 1.1048, 0.0194, -27.177, 0.9809, 83.30),
  ("cifar10", "ID robustness", "OOD_d robustness"): (65, 0.7221, 0.0167, -5.889, 0.9674, 66.32),
  ("cifar10", "ID robustness", "OOD_t robustness"): (65, 0.4325, 0.0658, 6.450, 0.4064, 49.70),
  ("cifar10", "ID accuracy", "OOD_d robustness"): (65, 0.9172, None, -44.230, 0.4217, None),
  ("cifar10", "ID robustness", "OOD_d accuracy"): (65, 0.4211, None, 45.180, 0.5274, None),
  ("imagenet", "ID accuracy", "OOD_d accuracy"): (18, 0.9926, 0.0581, -33.734, 0.9480, 65.52),
  ("imagenet", "ID robustness", "OOD_d robustness"): (18, 0.4901, 0.0206, -6.120, 0.9725, 42.89),
  ("imagenet", "ID robustness", "OOD_t robustness"): (18, 0.5783, 0.0253, -4.311, 0.9703, 53.52),
}


@needs_published
@pytest.mark.parametrize("place", LINES, ids=" ".join)
def test_lines_of_the_leaderboards_to_the_last_digit(place):
  data, x, y = place
  n, slope, error, intercept, r2, limit = LINES[place]
  zoo = board(data)
  trends, problems = fit_trends(zoo, [pair for pair in column_pairs(zoo) if pair[1:] == (x, y)], draws=200)
  (trend,) = trends
  line = trend.line
  assert not problems and line.n == n
  assert (round(line.slope, 4), round(line.intercept, 3), round(line.r2, 4)) == (slope, intercept, r2)
  assert error is None or round(line.slope_error, 4) == error
  assert (trend.limit is None) == (limit is None) and (limit is None or round(trend.limit, 2) == limit)
  assert trend.intervals["slope"].low < slope < trend.intervals["slope"].high


@needs_published
def test_probit_fits_no_better_and_the_filter_moves_the_limit():
  zoo = board("cifar10")
  line = fit_line(zoo.columns["ID robustness"], zoo.columns["OOD_d robustness"], "probit")
  assert (round(line.slope, 4), round(line.r2, 4)) == (0.7555, 0.9636)
  filtered = apply_filter(board("imagenet"), "acc+rob>=110, no-custom")
  line = fit_line(filtered.columns["ID robustness"], filtered.columns["OOD_d robustness"])
  assert len(filtered) == 13 and round(line.limit(), 2) == 49.65
  assert filtered.about()["filter"] == "acc+rob>=110, no-custom"


@needs_published
def test_mean_drops_and_the_mean_of_both_shifts():
  for data, wanted in {"cifar10": (22.10, 26.65, 17.99), "imagenet": (29.97, 24.04, 34.27)}.items():
    columns = board(data).columns
    drop = lambda kind, shift, columns=columns: degradation(columns[f"ID {kind}"], columns[f"{shift} {kind}"]).mean()
    found = drop("robustness", "OOD_d"), drop("robustness", "OOD_t"), drop("accuracy", "OOD_d")
    assert tuple(round(float(value), 2) for value in found) == wanted
    both = (columns["OOD_d robustness"] + columns["OOD_t robustness"]) / 2
    assert np.abs(both - columns["OOD robustness"]).max() <= 0.0051
    # The boards are sorted by OOD robustness.
    assert kendall(-columns["Rank"], columns["OOD robustness"]) > 0.99


def test_effective_robustness_of_every_row_of_the_papers_tables():
  with TABLES.open() as file:
    rows = list(csv.DictReader(file))
  assert len(rows) == 36 and {row["table"] for row in rows} == {"6", "7", "8", "9", "10"}
  worst = 0.0
  for row in rows:
    for kind, shift, printed in (
      ("accuracy", "OOD_d", "ER"),
      ("robustness", "OOD_d", "AER"),
      ("robustness", "OOD_t", "AER_t"),
    ):
      line = PUBLISHED_LINES[row["setting"], f"{shift} {kind}"]
      found = effective_robustness([float(row[f"ID {kind}"])], [float(row[f"{shift} {kind}"])], line)
      worst = max(worst, abs(float(found[0]) - float(row[printed])))
  assert worst <= 0.011
  limits = {place: round(line.limit()) for place, line in PUBLISHED_LINES.items() if "robustness" in place[1]}
  assert list(limits.values()) == [66, 52, 43, 52]  # As printed in section 5.


@pytest.mark.parametrize(("rob", "ood", "valid"), [(8.5, 3.4, True), (0.1, 0.0, False), (1.0, 0.5, False)])
def test_effective_robustness_is_given_where_the_paper_gives_it(rob, ood, valid):
  found = effective_robustness([rob], [ood], PUBLISHED_LINES["cifar10-linf", "OOD_d robustness"])
  assert np.isfinite(found[0]) == valid
  assert not valid or round(float(found[0]), 1) == 2.6


@needs_published
def test_mm5_against_autoattack_over_matched_models():
  first, second, counts = [], [], []
  for data in ("cifar10", "imagenet"):
    zoo, other = board(data), read_beside(PUBLISHED / "robustbench_model_info" / data / "Linf")
    rows = same_models(zoo, other)
    counts.append(len(rows))
    first.extend(zoo.columns["ID robustness"][row] for row, _ in rows)
    second.extend(other.columns["ID robustness"][row] for _, row in rows)
  total = gap(first, second)
  assert counts == [64, 16]
  assert (total.n, round(total.mean, 3), round(total.sd, 3), round(total.largest, 2)) == (80, 0.170, 0.262, 1.44)
  assert total.interval.low < 0.170 < total.interval.high < 0.25


@needs_published
def test_agreement_on_the_line_on_cifar_10_1():
  with np.load(PUBLISHED / "cifar10.1_predictions.npz") as file:
    here, there, labels = file["cifar10"], file["v6"], file["v6_labels"]
  right = np.load(realdata.ROOT / "cifar10_test.npz")["labels"]
  accuracy, wanted = (here == right).mean(1), (there == labels).mean(1)
  raw = fit_line(accuracy, wanted, top=1.0)
  assert (round(raw.slope, 4), round(raw.intercept, 4), round(raw.r2, 4)) == (1.5952, -0.6318, 0.9897)
  scaled = fit_line(accuracy, wanted, "probit", 1.0)
  assert (round(scaled.slope, 4), round(scaled.intercept, 4), round(scaled.r2, 4)) == (0.9496, -0.3811, 0.9840)
  assert pairwise_agreement(here).shape == (435,)
  errors = {}
  for method, scale in (("aline-s", "raw"), ("aline-s", "probit"), ("aline-d", "probit")):
    found = estimate_accuracy(accuracy, here, there, method, scale)
    error = 100 * np.abs(found.accuracy - wanted)
    errors[method, scale] = (round(float(error.mean()), 2), round(float(error.max()), 2))
    line = (round(found.line.slope, 4), round(found.line.intercept, 4), round(found.line.r2, 4))
    assert line == {"raw": (1.5690, -0.5974, 0.9858), "probit": (0.9946, -0.3962, 0.9834)}[scale] and not found.warning
  wanted_errors = {("aline-s", "raw"): (1.07, 2.27), ("aline-s", "probit"): (1.14, 2.70)}
  assert errors == wanted_errors | {("aline-d", "probit"): (1.13, 2.89)}
  assert round(100 * float(np.abs(accuracy - wanted).mean()), 2) == 7.78


def test_the_table_of_the_guides_zoo_gives_the_guides_numbers():
  docs = pathlib.Path(jaxrobust.__file__).parent / "docs"
  zoo, guide = read_csv(docs / "tables" / "cifar10_zoo.csv"), (docs / "trends.md").read_text()
  trends, problems = fit_trends(zoo, column_pairs(zoo), draws=2)
  shown = {(trend.kind, trend.y.partition("[")[0].split()[0]): trend for trend in trends}
  for kind, shift in (("Acc-Acc", "R_c"), ("Rob-Rob", "R_c"), ("Rob-Rob", "OOD_t")):
    line = shown[kind, shift].line
    row = next(row for row in guide.splitlines() if row.startswith(f"| {kind}, {shift} |"))
    numbers = [cell.split()[0] for cell in row.strip("| ").split("|")[1:]]
    found = [f"{line.slope:.3f}", f"{line.intercept:.2f}", f"{line.r2:.3f}".lstrip("0"), f"{line.limit():.1f}"]
    assert numbers == found
  assert not problems and f"| line, {len(zoo)} models, {zoo.date} |" in guide


@needs_published
def test_the_accuracies_of_cifar_10_1_as_any_csv():
  zoo = read_csv(PUBLISHED / "cifar10.1_accuracies.csv")
  pairs = column_pairs(zoo, "cifar10_test", "cifar10.1_v6")
  (trend,), _ = fit_trends(zoo, pairs, draws=100)
  assert len(zoo) == 30 and round(trend.line.slope, 4) == 1.5952 and round(trend.line.intercept, 2) == -63.18
