"""Whatever lies in a results folder, the store answers, the report is written, and no text becomes markup."""

import json
import random
import re

import numpy as np
import pytest

from jaxrobust.report.report import write_report
from jaxrobust.results import frame, load_results, query
from jaxrobust.results.cell import Cell, to_text
from tests.fuzz import HOSTILE, mutated
from tests.report.synthetic import result


def base(rng):
  n = 6
  flags = rng.random(n) < 0.6
  examples = {
    "correct": flags | (rng.random(n) < 0.3),
    "robust": flags,
    "distance": rng.random(n).astype(np.float32),
    "broken_at": rng.integers(-1, 9, n).astype(np.int32),
  }
  cell = Cell(model="net", data="d", attack=rng.choice(["none", "linf-pgd-20", "linf-fab"]), eps=None, n=n)
  findings = [{"kind": "nan", "text": "t", "examples": 1}]
  return json.loads(to_text(result(cell, examples, {"arch": "a", "family": "f"}, findings=findings)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """Some good cells and hundreds of bad ones."""
  root, chance, rng = tmp_path_factory.mktemp("fuzz") / "results", random.Random(0), np.random.default_rng(0)
  (root / "a").mkdir(parents=True)
  for at in range(400):
    document = base(rng)
    text = json.dumps(mutated(document, chance)).encode()
    if at % 4 == 0:
      text = text[: chance.randint(0, len(text))]
    elif at % 4 == 1:
      spot = chance.randint(0, len(text) - 1)
      text = text[:spot] + bytes([chance.randint(0, 255)]) + text[spot + 1 :]
    (root / "a" / f"{at}.n6.seed0.json").write_bytes(text)
  for at, name in enumerate(HOSTILE[:-1]):
    document = base(rng)
    document["cell"].update(model=name, data=name, condition=name, attack=f"linf-{name}", eps="8/255")
    document["provenance"]["model"] = {"arch": name, "family": name, "technique": name}
    document["provenance"]["command"] = name
    document["findings"] = [{"kind": name, "text": name, "examples": 10**40}]
    (root / "a" / f"hostile{at}.n6.seed0.json").write_text(json.dumps(document))
  good = base(rng)
  good["cell"]["model"] = "good"
  (root / "good.n6.seed0.json").write_text(json.dumps(good))
  (root / "deep.n1.seed0.json").write_text("[" * 100_000)
  with open(root / "huge.n1.seed0.json", "wb") as file:
    file.truncate(400 * 2**20)
  (root / "a" / "x.n6.seed0.images.npz").write_bytes(b"PK\x03\x04 no zip")
  (root / "a" / "x.n6.seed0.shard-00000-of-00002.json").write_text("{}")
  (root / "folder.n1.seed0.json").mkdir()
  return root


def test_the_store_answers(folder):
  pytest.importorskip("duckdb")
  cells = frame(folder)
  assert "good" in set(cells.model) and len(cells) > 20
  findings = query(folder, "SELECT path, kind, text FROM findings")
  damaged = findings[findings.kind == "damaged"]
  assert len(damaged) > 200 and {"deep.n1.seed0.json", "huge.n1.seed0.json"} <= set(damaged.path)
  assert len(damaged) + len(cells) == sum(path.is_file() for path in folder.rglob("*.seed0.json"))
  assert "no cell is" in damaged[damaged.path == "huge.n1.seed0.json"].text.iloc[0]
  errors = []
  assert "good" in {result.cell.model for result in load_results(folder, errors.append)}
  assert all("\n" not in str(error) for error in errors)


def test_the_report_is_written_and_text_stays_text(folder, tmp_path):
  written = write_report(folder, tmp_path / "site")
  assert written.models > 5 and len(written.problems) > 200
  for path in (tmp_path / "site").rglob("*"):
    assert (tmp_path / "site").resolve() in path.resolve().parents
    if path.suffix == ".js" and path.parent.name in ("data", "models"):
      text = path.read_text()
      assert text.isascii() and "<" not in text and text.count("\n") == 1
      json.loads(f"[{re.fullmatch(r'JR[.][a-z]+[(](.*)[)];', text.strip())[1]}]")
    elif path.suffix == ".md":
      assert "<" not in path.read_text()
    elif path.suffix == ".csv":
      assert not re.search(r"(^|,)[=@]", path.read_text(), re.MULTILINE)


def test_the_page_draws_it(folder, tmp_path, browser):
  page = write_report(folder, tmp_path / "site").page
  browser.get("about:blank")
  browser.get_log("browser")
  browser.get(page.as_uri())
  ids = browser.execute_script("return [...document.querySelectorAll('tbody th a')].map((a) => a.hash)")
  assert ids
  sets = browser.execute_script("return [...document.querySelectorAll('select[name=data] option')].map((o) => o.value)")
  for value in sets[:8]:
    browser.execute_script(
      """const select = document.querySelector("select[name=data]"); select.value = arguments[0];
      select.dispatchEvent(new Event("change"));""",
      value,
    )
    ids += browser.execute_script("return [...document.querySelectorAll('tbody th a')].map((a) => a.hash)")
  for place in sorted(set(ids))[:8]:
    browser.execute_script("location.hash = arguments[0]", place)
    browser.execute_async_script("setTimeout(arguments[0], 250)")
    assert browser.execute_script("return document.querySelector('h1').textContent") != "This page could not be drawn"
  assert (
    browser.execute_script("return document.querySelectorAll('main script, main img[src=x], main svg[onload]').length")
    == 0
  )
  assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
