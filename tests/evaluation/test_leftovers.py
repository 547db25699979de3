"""What lies beside a cell is there before it, and what a killed process left is removed by the next one."""

from jaxrobust import testing
from jaxrobust.data.source import ArraySource
from jaxrobust.engine.options import EngineOptions
from jaxrobust.evaluation import runner
from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.suites import attack_entry
from jaxrobust.results.partial import partial_path
from jaxrobust.results.store import TIMING, sibling


def test_a_kill_after_the_cell_leaves_its_timing_and_no_partial_file_for_ever(tmp_path, monkeypatch):
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 24)
  data = ArraySource("made", images, labels, testing.CLASSES)
  options = RunOptions(EngineOptions.for_platform(4), quiet=True, save_seconds=0.0)
  run = lambda: evaluate(
    classifier, data, [attack_entry("bim", "0.015", num_steps=5)], name="m", out=tmp_path, options=options
  )
  save, seen = runner.save_result, []

  def saving(root, result):
    seen.append(sibling(result.cell.path(root), TIMING).exists())
    return save(root, result)

  monkeypatch.setattr(runner, "save_result", saving)
  with monkeypatch.context() as patch:
    patch.setattr(runner, "remove_partial", lambda path: None)  # The process is gone before it comes to this.
    (result,) = run().results
  assert seen == [True]
  path = result.cell.path(tmp_path)
  assert partial_path(path).exists()
  run()
  assert not partial_path(path).exists() and path.exists() and len(seen) == 1
