"""The space of NAS-Bench-201 by its generator, against the published ids, strings and classes."""

import json

import numpy as np
import pytest

from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.core.nas_cells import NUM_CELLS, all_cells, canonical, cell_string, operations_of
from jaxrobust.models.families.nas_bench_201 import MODELS
from jaxrobust.models.registry import count_flops as counted_flops
from jaxrobust.models.registry import count_params as counted_params
from jaxrobust.models.registry import list_models
from jaxrobust.nas import size, space
from tests.nas.published import NAS201, needs_table

pytestmark = pytest.mark.smoke


def test_three_readings_of_isomorphism_give_the_published_counts():
  counts = [len({canonical(cell, zero) for cell in all_cells().tolist()}) for zero in (None, False, True)]
  assert counts == [15_625, 12_751, 6_466]
  assert len(space.representatives()) == 6_466 and NUM_CELLS == 15_625


def test_examples_of_the_paper():
  assert space.isomorph(1832) == 309 and space.isomorph(3365) == 991 and space.isomorph(21) == 21
  assert cell_string(operations_of(21)) == ("|nor_conv_1x1~0|+|none~0|none~1|+|nor_conv_1x1~0|nor_conv_3x3~1|none~2|")
  # Appendix B.1: two exchanges lead from the best clean cell to the best under corruptions.
  best, corrupted = operations_of(13714), operations_of(3456)
  assert [edge + 1 for edge in range(6) if best[edge] != corrupted[edge]] == [2, 5]
  assert space.edit_distance(best, corrupted) == 2


@needs_table
@pytest.mark.data
def test_ids_strings_and_isomorphs_equal_every_entry_of_the_published_table():
  ids = json.loads((NAS201 / "meta.json").read_text())["ids"]
  assert len(ids) == NUM_CELLS
  for uid, entry in ids.items():
    assert entry["nb201-string"] == cell_string(operations_of(int(uid)))
    assert int(entry["isomorph"]) == space.isomorphs()[int(uid)]


def test_strings_and_operations_lead_back_to_the_id():
  for uid in range(0, NUM_CELLS, 501):
    assert space.id_of(space.parse_string(cell_string(operations_of(uid)))) == uid


@pytest.mark.parametrize("text", ["", "|none~0|", "|none~1|+|none~0|none~1|+|none~0|none~1|none~2|", "abc"])
def test_what_is_no_cell_is_refused(text):
  with pytest.raises(InputError, match="not a cell"):
    space.parse_string(text)


def test_cells_are_chosen_by_ids_ranges_and_strings():
  text = cell_string(operations_of(13714))
  assert space.choose_cells(f"5,{text},0-2,5") == [5, 13714, 0, 1, 2]
  with pytest.raises(InputError, match="not a cell"):
    space.choose_cells("3,|none~0|")
  for text in ("3-", "-3", "3,,4", "random-0"):
    with pytest.raises(InputError, match="cells are ids"):
      space.choose_cells(text)


def test_ids_and_operations_out_of_range_are_refused():
  for uid in (-1, NUM_CELLS):
    with pytest.raises(UnknownNameError, match="0 to 15624"):
      operations_of(uid)
  with pytest.raises(InputError, match="6 operations"):
    space.id_of((0, 1, 2, 3, 4, 5))


def test_only_live_edges_give_the_408_cells_of_the_paper():
  cells = [operations_of(uid) for uid in space.representatives()]
  assert sum(space.kernel_params(cell) == 18 for cell in cells) == 408
  assert sum(space.kernel_params(cell, live_only=False) == 18 for cell in cells) == 405
  assert space.live_edges((3, 3, 0, 0, 0, 3)) == (False, True, False, False, False, True)


def test_neighbors_are_all_cells_at_distance_one():
  table = space.neighbors()
  for uid in (0, 777, 13714):
    distances = (all_cells() != all_cells()[uid]).sum(axis=1)
    np.testing.assert_array_equal(np.sort(table[uid]), np.flatnonzero(distances == 1))


def test_connected_cells_are_those_naslib_draws():
  # Two patterns of three edges, 125 cells each, five in both (the shared edge 0 -> 3 is in each).
  assert (~space.connected()).sum() == 125 + 125 - 5


# Of the official NATS-Bench files: id, classes, parameters, millions of multiply-adds.
@pytest.mark.parametrize(
  ("uid", "classes", "params", "flops"),
  [
    (0, 10, 129_306, 15.64737),
    (11, 10, 802_426, 113.95137),
    (284, 10, 101_306, 11.71521),
    (0, 100, 135_156, None),
  ],
)
def test_sizes_are_the_official_ones_and_those_of_the_network(uid, classes, params, flops):
  operations, name = operations_of(uid), f"nb201-{uid}"
  assert size.count_params(operations, num_classes=classes) == counted_params(name, classes) == params
  found = size.count_flops(operations, num_classes=classes)
  assert found - classes == counted_flops(name, classes)  # The last layer's biases.
  assert flops is None or round(found / 1e6, 5) == flops


def test_every_cell_is_a_model_and_two_are_listed():
  assert list_models("nb201-*") == ["nb201-13714", "nb201-3456"]
  assert "nb201-0" in MODELS and MODELS["nb201-0"].description.endswith(cell_string(operations_of(0)))
  assert MODELS["nb201-5"] is MODELS["nb201-5"]
  for name in ("nb201-15625", "nb201-", "nb201-01", "nb201-x", "nb201--1"):
    assert name not in MODELS
