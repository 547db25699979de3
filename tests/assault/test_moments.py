"""SIGTERM while a program is compiled, items exchanged, a checkpoint written, shards merged, a cell saved."""

from __future__ import annotations

import pytest

from tests.assault.commands import COMMANDS, finish, start
from tests.assault.test_kills import models as models
from tests.assault.test_kills import settle
from tests.assault.test_kills import undisturbed as undisturbed

MOMENTS = {
  "compilation": "transfer",
  "exchange": "transfer",
  "cell": "transfer",
  "checkpoint": "train",
  "merging": "shards",
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_asked_to_stop_at_a_bad_moment_nothing_is_lost(moment, models, undisturbed, tmp_path, record):
  name = MOMENTS[moment]
  out, cache = tmp_path / "out", {"JAXROBUST_CACHE": str(tmp_path / "cache")} if moment == "compilation" else {}
  found = finish(start(COMMANDS[name], models, out, ("tests.assault.moments", moment), **cache))
  codes = [code for code, _ in found]
  # Of several processes only the last one merges.
  assert 75 in codes and set(codes) <= {0, 75}, found
  assert all("Traceback" not in said for _, said in found), found
  wrong = settle(name, models, out, undisturbed(name)[0])
  record(f"SIGTERM during {moment} ({name})", 1, f"exit codes {codes}, {len(wrong)} differences after going on")
  assert not wrong, "\n".join(wrong)
