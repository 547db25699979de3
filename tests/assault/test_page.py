"""Hostile results in a real browser: no text becomes markup, nothing is fetched, no script of theirs runs."""

from __future__ import annotations

import json

import numpy as np

from jaxrobust.report.report import write_report
from tests.assault.conftest import SEED, count
from tests.assault.inputs import _TEXTS as TEXTS
from tests.report.test_fuzz import base

MARKS = [
  "<script>window.hit=1</script>",
  '"><img src=x onerror=window.hit=1>',
  "</script><svg onload=window.hit=1>",
  "javascript:window.hit=1",
  "{{constructor.constructor('window.hit=1')()}}",
  "\u2028</script><script>window.hit=1</script>",
]


def test_the_page_shows_hostile_text_and_obeys_none_of_it(browser, tmp_path, record):
  rng, root = np.random.default_rng(SEED), tmp_path / "results"
  root.mkdir()
  tried = count("PAGES", 60)
  for number in range(tried):
    document, text = base(rng), [*MARKS, *TEXTS[:12]][number % (len(MARKS) + 12)]
    name = f"{number} {text}"[:3000]
    document["cell"].update(model=name, data=text or "d", condition="clean", attack=f"linf-{name}", eps="8/255")
    document["provenance"] = {"model": dict.fromkeys(("arch", "family", "technique"), text), "command": text}
    document["findings"] = [{"kind": text, "text": text, "examples": 1}]
    (root / f"{number}.n6.seed0.json").write_text(json.dumps(document))
  page = write_report(root, tmp_path / "site").page
  browser.get("about:blank")
  browser.get_log("browser")
  browser.get(page.as_uri())
  places = browser.execute_script("return [...document.querySelectorAll('tbody th a')].map((a) => a.hash)")
  assert places
  for place in places[:20]:
    browser.execute_script("location.hash = arguments[0]", place)
    browser.execute_async_script("setTimeout(arguments[0], 200)")
  hit = browser.execute_script("return window.hit")
  script = "return document.querySelectorAll('main script, main img[src=x], main svg[onload]').length"
  injected = browser.execute_script(script)
  fetched = browser.execute_script("return performance.getEntriesByType('resource').map((e) => e.name)")
  foreign = [name for name in fetched if not name.startswith(("file:", "data:"))]
  errors = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
  record("hostile results in a browser", tried, f"{hit or 0} scripts, {injected} elements, {len(foreign)} requests")
  assert hit is None and not injected and not foreign and not errors
