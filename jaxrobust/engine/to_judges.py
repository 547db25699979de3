"""Sending images to the judges: the clean pass of a batch, and what is in the outbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.keys import CLEAN_STAGE, item_keys
from jaxrobust.core.threat import Norm
from jaxrobust.engine.example import Examples
from jaxrobust.engine.judge import unpack_judgment
from jaxrobust.engine.pending import Judged

if TYPE_CHECKING:
  from jaxrobust.engine.scheduler import Engine


def judge_clean(engine: Engine, rows: Examples, judges: Sequence[Classifier]) -> list[Any]:
  """Sends unperturbed images through some judges; returns their packed judgments to come."""
  count, size = len(rows.ids), engine.outbox.size
  padded = slice(None) if count == size else np.minimum(np.arange(size), count - 1)
  labels, targets = (np.asarray(part, np.int32)[padded] for part in (rows.labels, rows.targets))
  keys = np.zeros((size, 2), np.uint32)
  if any(judge.randomized for judge in judges):
    keys = item_keys(engine.seed, [(example, CLEAN_STAGE, 0) for example in np.asarray(rows.ids).tolist()])[padded]
  loaded = engine.device.load(*engine.device.put((np.asarray(rows.images)[padded], labels, targets, keys)))
  return [_judge(engine, judge, loaded, engine.outbox.local, False)[0] for judge in judges]


def predict(engine: Engine, rows: Examples) -> np.ndarray:
  """Returns what the classifier calls some examples, before the run; -1 for an output that is not finite."""
  predictions, size = [], engine.outbox.size
  for first in range(0, len(rows.ids), size):
    part = Examples(*(column[first : first + size] for column in rows))
    packed = engine.device.read(judge_clean(engine, part, (engine.classifier,))[0])
    logits = unpack_judgment(packed).logits[: len(part.ids)]
    predictions.append(np.where(np.isfinite(logits).all(1), logits.argmax(1), -1))
  return np.concatenate(predictions)


def judge_outbox(engine: Engine) -> bool:
  """Sends what is in the outbox to the judges; False if nothing is."""
  outbox = engine.outbox
  count = len(outbox)
  if not count:
    return False
  rows = outbox.judged_rows if engine.options.shrink else outbox.local
  wants = None if engine.schedule.stops else engine.wants_image
  wanted = wants is not None and any(map(wants, engine.examples["position"][outbox.waiting].tolist()))
  packed, images = [], None
  for number, judge in enumerate(engine.judges):
    one, pictures = _judge(engine, judge, outbox.candidates, rows, wanted and number == 0)
    packed.append(one)
    images = images if pictures is None else pictures
  engine.stats.judged += count * len(engine.judges)
  engine.pending.append(Judged(engine.turns, *outbox.take(rows), packed, images))
  return True


def _judge(engine: Engine, judge: Classifier, candidates: Any, rows: int, with_images: bool) -> Any:
  samples = engine.verdict_samples if judge.randomized else 1
  threat, arrays = engine.threat_parts
  if engine.threat.witnessed and candidates.witness is None:  # Unperturbed images were not rendered from anything.
    threat, arrays = Norm("linf"), ()
  options: dict[str, Any] = {"threat": threat, "rows": rows, "samples": samples, "with_images": with_images}
  options["own"] = judge is engine.classifier
  return engine.device.judge(judge, arrays, candidates, engine.targeted, **options)
