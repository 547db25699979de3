"""Compiled programs as text, without a compiler: collectives, loops by their trips, products, rooflines."""

from __future__ import annotations

from pathlib import Path

import pytest

from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.pods.chips import CHIPS, Slice
from jaxrobust.pods.hlo import Traffic, collectives, library_calls, parse_module
from jaxrobust.pods.roofline import Costs, looped, roofline, text_costs, unknown_loops

# Shortened texts of programs that were compiled for v5e:2x2 and an H100.
TEXTS = Path(__file__).parent / "texts"


@pytest.fixture(scope="module")
def loop():
  return parse_module((TEXTS / "tpu_loop.txt").read_text())


@pytest.mark.smoke
def test_a_loop_counts_as_often_as_its_condition_lets_it_run(loop):
  once, often = text_costs(loop, False), text_costs(loop, True)
  conv = 2 * 16 * 56 * 56 * 64 * (3 * 3 * 64)  # Of one trip.
  assert once.flops == conv and often.flops == 3 * conv
  # A trip copies the images and convolves them: in and out twice, and the kernel.
  images, kernel = 16 * 56 * 56 * 64 * 2, 3 * 3 * 64 * 64 * 2
  trip = 4 * images + kernel
  assert trip <= (often.bytes - once.bytes) / 2 < trip + 100
  assert unknown_loops(loop) == 0


def test_the_compilers_count_is_kept_but_for_loops(loop):
  assert looped(Costs(5.0, 7.0), loop).flops == pytest.approx(15.0)
  flat = parse_module((TEXTS / "gpu_convolutions.txt").read_text())
  assert looped(Costs(5.0, 7.0), flat) == (5.0, 7.0)


def test_collectives_are_counted_with_their_loops_and_bytes():
  found = collectives(parse_module((TEXTS / "tpu_collectives.txt").read_text()))
  assert found == {
    "all-gather": Traffic(1, 4 * 8 * 128 * 2),  # Asynchronous: the gathered array, not what it is gathered from.
    "all-reduce": Traffic(1 + 5, 4 * (1 + 5 * 64)),  # One alone, and one of 64 in a loop of five trips.
    "reduce-scatter": Traffic(1, 4 * 256),  # A fused all-reduce of which each chip keeps a part.
  }


def test_groups_of_one_do_not_communicate():
  text = (TEXTS / "tpu_collectives.txt").read_text().replace("replica_groups={{0,1,2,3}}", "replica_groups={{0},{1}}")
  assert set(collectives(parse_module(text))) == {"all-gather", "reduce-scatter"}


def test_library_calls_and_their_products_are_known():
  module = parse_module((TEXTS / "gpu_convolutions.txt").read_text())
  assert library_calls(module) == {"__cudnn$convBackwardInput": 1, "__cudnn$convForward": 1, "__cublas$lt$matmul": 1}
  forward = 2 * (8 * 16 * 16 * 32) * (3 * 3 * 16)
  assert text_costs(module, True).flops == 2 * forward + 2 * (8 * 10) * 32


@pytest.mark.parametrize(("precision", "passes"), [("highest", 6), ("high", 3), ("default", 1), ("bfloat16", 1)])
def test_float32_takes_several_passes(precision, passes):
  chip = CHIPS["v5e"]
  time = roofline(Costs(chip.peak, 0.0), {}, chip, precision)
  assert time.seconds == passes and time.bound == "compute"


def test_an_all_reduce_crosses_the_links_twice():
  chip = CHIPS["v5e"]
  time = roofline(Costs(0.0, chip.bandwidth), {"all-reduce": Traffic(2, int(chip.links))}, chip, "default")
  assert time.seconds == 1 + 2 and time.bound == "links"


@pytest.mark.parametrize("text", ["v5e", "v5e:4", "h100:2x2", "h100", "v5e:0x4", ""])
def test_what_names_no_slice_is_refused(text):
  with pytest.raises(InputError):
    Slice.parse(text)


def test_an_unknown_chip_is_named_with_its_neighbors():
  with pytest.raises(UnknownNameError, match="v6e"):
    Slice.parse("v6x:2x2")
