"""Other benchmarks' files: their numbers arrive unchanged, and ours leave in their layout."""

import json
import random
import shutil

import pytest

from jaxrobust.core.errors import (
  CellMismatchError,
  CorruptFileError,
  InputError,
  JaxrobustError,
  StorageError,
  UnknownNameError,
)
from jaxrobust.core.nas_cells import cell_string, operations_of
from jaxrobust.evaluation.suites import Setting, make_suite
from jaxrobust.results import Cell, Result, load_results, query, save_result
from jaxrobust.results.exchange import FORMATS, export_results, import_results
from jaxrobust.results.exchange.nas import ATTACKS, EPSILONS
from tests.fuzz import mutated
from tests.realdata import ROOT, needs_data

SUMMARY = {"accuracy": 0.9, "robust_accuracy": 0.5}
ROBUSTBENCH = {
  "link": "https://arxiv.org/abs/1905.13736",
  "name": "Unlabeled Data",
  "authors": "A, B",
  "additional_data": True,
  "number_forward_passes": 1,
  "dataset": "cifar10",
  "venue": "NeurIPS 2019",
  "architecture": "WideResNet-28-10",
  "eps": "8/255",
  "clean_acc": "89.69",
  "reported": "62.5",
  "autoattack_acc": "59.53",
  "unreliable": False,
}
OODRB = {
  "dataset": "cifar10",
  "eps": 0.03137254901960784,
  "clean_acc": 0.8969,
  "adv_acc": {"Linf-mm5-0.031373": 0.5953, "L2-mm5-0.5": 0.61, "lpa-0.5": 0.1, "stadv-0.05": 0.2},
  "metrics": {
    "corruptions": {"fog": {"3": {"clean": 0.8, "Linf-mm5-0.031373": 0.4}, "5": {"clean": 0.6}}},
    "cifar10.1": {"clean": 0.7, "Linf-mm5-0.031373": 0.3},
    "cinic": {"clean": 0.75},
  },
}
META = {
  "ids": {
    "21": {"nb201-string": cell_string(operations_of(21)), "isomorph": "21"},
    "309": {"nb201-string": cell_string(operations_of(309)), "isomorph": "309"},
  },
  "epsilons": EPSILONS,
}
FGSM = [0.8, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05, 0.01, 0.123]
NAS = {
  "meta.json": META,
  "cifar10/clean_accuracy.json": {"cifar10": {"clean": {"accuracy": {"21": 0.856, "309": 0.9}}}},
  "cifar10/clean_cm.json": {"cifar10": {"clean": {"cm": {"21": [[9, 1], [2, 8]]}}}},
  "cifar10/fgsm@Linf_accuracy.json": {"cifar10": {"fgsm@Linf": {"accuracy": {"21": FGSM, "309": FGSM[::-1]}}}},
  "cifar10/fgsm@Linf_confidence.json": {"cifar10": {"fgsm@Linf": {"confidence": {"21": [{"label": [0.5]}] * 11}}}},
  "cifar10/pgd@Linf_accuracy.json": {"cifar10": {"pgd@Linf": {"accuracy": {"21": [0.6, *[None] * 6]}}}},
  "cifar10/fog_accuracy.json": {"cifar10": {"fog": {"accuracy": {"21": [0.8, 0.7, 0.6, 0.5, 0.4]}}}},
  "ImageNet16-120/clean_accuracy.json": {"ImageNet16-120": {"clean": {"accuracy": {"21": 0.4}}}},
}


def write(folder, files):
  for name, value in files.items():
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((value if isinstance(value, str) else json.dumps(value)).encode("utf-8", "surrogatepass"))
  return folder


def read(folder):
  return {path.relative_to(folder).as_posix(): json.loads(path.read_text()) for path in folder.rglob("*.json")}


def numbers(root):
  return {
    (r.cell.model, r.cell.data, r.cell.condition, r.cell.id): (r.summary["robust_accuracy"], r.cell.n)
    for r in load_results(root)
  }


def test_robustbench_both_ways(tmp_path):
  corrupted = {**ROBUSTBENCH, "eps": None, "clean_acc": "85.32", "corruptions_acc": "76.78"}
  del corrupted["autoattack_acc"], corrupted["unreliable"]
  files = {"cifar10/Linf/Carmon.json": ROBUSTBENCH, "cifar10/corruptions/Addepalli.json": corrupted}
  assert len(import_results("robustbench", write(tmp_path / "in", files), tmp_path / "results")) == 4
  assert numbers(tmp_path / "results") == {
    ("Carmon.Linf", "cifar10", "clean", "none"): (0.8969, 10000),
    ("Carmon.Linf", "cifar10", "clean", "linf-autoattack@8/255"): (0.5953, 10000),
    ("Addepalli.corruptions", "cifar10", "clean", "none"): (0.8532, 10000),
    ("Addepalli.corruptions", "cifar10", "corruptions-mean", "none"): (0.7678, 10000),
  }
  export_results("robustbench", tmp_path / "results", tmp_path / "out")
  exported = read(tmp_path / "out")
  assert set(exported) == set(files)
  for name, info in files.items():
    assert {key: value for key, value in exported[name].items() if value is not None} == {
      key: value for key, value in info.items() if value is not None
    }


def test_what_robustbench_says_of_a_model_is_kept(tmp_path):
  files = {"cifar10/Linf/Kang.json": {**ROBUSTBENCH, "unreliable": True, "footnote": "An ODE."}}
  import_results("robustbench", write(tmp_path / "in", files), tmp_path / "results")
  found = {result.cell.attack: result for result in load_results(tmp_path / "results")}
  assert [finding["kind"] for finding in found["linf-autoattack"].findings] == ["unreliable"]
  about = found["none"].provenance["model"]
  assert (about["venue"], about["additional_data"], about["unreliable"]) == ("NeurIPS 2019", True, True)
  export_results("robustbench", tmp_path / "results", tmp_path / "out")
  assert read(tmp_path / "out")["cifar10/Linf/Kang.json"]["unreliable"] is True


def test_oodrobustbench_both_ways(tmp_path):
  files = {"cifar10/Linf/Carmon.json": OODRB}
  import_results("oodrobustbench", write(tmp_path / "in", files), tmp_path / "results")
  found = numbers(tmp_path / "results")
  assert found["Carmon.Linf", "cifar10", "fog-3-t32", "linf-mm5@8/255"][0] == 0.4
  assert found["Carmon.Linf", "cifar10.1-v6", "clean", "none"][0] == 0.7 and len(found) == 11
  # CIFAR-10.1 has 2,000 images; of CINIC-10 as many are drawn as CIFAR-10 has.
  assert found["Carmon.Linf", "cifar10.1-v6", "clean", "none"][1] == 2000
  assert found["Carmon.Linf", "cinic10", "clean", "none"][1] == 10000
  assert found["Carmon.Linf", "cifar10", "clean", "lpips-alexnet-cifar-lpa-200@0.5"][0] == 0.1
  assert found["Carmon.Linf", "cifar10", "clean", "flow-stadv-100@0.05"][0] == 0.2, "the id that our own cells have"
  export_results("oodrobustbench", tmp_path / "results", tmp_path / "out")
  exported = read(tmp_path / "out")["cifar10/Linf/Carmon.json"]
  assert exported.pop("eps") == pytest.approx(8 / 255)
  assert exported == {key: value for key, value in OODRB.items() if key != "eps"}


def test_nas_both_ways(tmp_path):
  written = import_results("nas", write(tmp_path / "in", NAS), tmp_path / "results")
  assert len(written) == 5 and len(list((tmp_path / "results").rglob("*.json"))) == 5
  export_results("nas", tmp_path / "results", tmp_path / "out")
  exported = read(tmp_path / "out")
  meta = exported.pop("meta.json")
  assert exported == {name: value for name, value in NAS.items() if name != "meta.json"}
  # All cells of the space, isomorphic ones with the id of their representative.
  assert len(meta["ids"]) == 15625 and meta["ids"]["3365"]["isomorph"] == "991" and meta["epsilons"] == EPSILONS
  assert {uid: meta["ids"][uid] for uid in META["ids"]} == META["ids"]


def test_tables_of_many_models_are_rows_of_cells(tmp_path):
  pytest.importorskip("duckdb", reason="pip install 'jaxrobust[report]'")
  import_results("nas", write(tmp_path / "in", NAS), tmp_path / "results")
  rows = (
    query(tmp_path / "results", "SELECT * FROM cells")
    .set_index(["model", "data", "condition", "attack", "eps"])
    .sort_index()
  )
  assert len(rows) == 2 + 22 + 1 + 5 + 1
  one = rows.loc[("nb201-309", "cifar10", "clean", "linf-fgsm", "0.1/255")]
  assert (one.robust_accuracy, one.n, one.norm, one.family) == (0.123, 10000, "linf", "nas-bench-201")
  assert one.arch == META["ids"]["309"]["nb201-string"]
  fog = rows.loc[("nb201-21", "cifar10", "fog-5-t32", "none")].iloc[0]
  assert (fog.accuracy, fog.corruption, fog.severity) == (0.4, "fog", 5)
  assert rows.loc[("nb201-21", "imagenet16-120", "clean", "none")].iloc[0].n == 6000
  (tmp_path / "results" / "tables" / "nas" / "cifar10" / "fog.table.json").write_text('{"table": 1}')
  assert len(query(tmp_path / "results", "SELECT * FROM cells")) == 26
  assert (
    query(tmp_path / "results", "SELECT path FROM findings WHERE kind = 'damaged'").path[0].endswith("fog.table.json")
  )


def test_only_the_papers_protocol_is_exported_to_nas(tmp_path):
  suite = make_suite("nas-attacks", Setting("cifar10"))
  ours = {entry.attack for part in suite.parts for entry in part.entries} - {"none"}
  assert ours == set(ATTACKS.values())
  wrong = [
    {"attack": "linf-pgd-4,step_size=0.3", "eps": "1/255"}, {"attack": "linf-square-20", "eps": "1/255"},
    {"attack": "linf-fgsm", "eps": "1/255", "n": 16}, {"attack": "linf-fgsm", "eps": "1.5/255"},
    {"attack": "none", "data": "npz:/tmp/mine.npz"}, {"attack": "none", "condition": "fog-3-t224"},
    {"attack": "none", "condition": "spatter-3-t32"},
  ]  # fmt: skip
  right = [{"attack": attack, "eps": "1/255"} for attack in ours]
  right += [{}, {"condition": "fog-3-t32"}, {"data": "cifar10-c:snow-2"}]
  for folder, cells in (("wrong", wrong), ("right", right)):
    for cell in cells:
      fields = {"model": "nb201-21", "data": "cifar10", "n": 10_000, "attack": "none", **cell}
      save_result(tmp_path / folder, Result(cell=Cell(**fields), config={}, summary=SUMMARY, examples={}))
  with pytest.raises(InputError, match="7 cells are not under the data set's protocol"):
    export_results("nas", tmp_path / "wrong", tmp_path / "out")
  export_results("nas", tmp_path / "right", tmp_path / "out")
  exported = read(tmp_path / "out")
  assert {name.partition("_accuracy")[0] for name in exported if name != "meta.json"} == {
    f"cifar10/{key}" for key in (*ATTACKS, "clean", "fog", "snow")
  }
  values = exported["cifar10/fgsm@Linf_accuracy.json"]["cifar10"]["fgsm@Linf"]["accuracy"]["21"]
  assert values == [None, None, 0.5, *[None] * 8]
  assert exported["cifar10/snow_accuracy.json"]["cifar10"]["snow"]["accuracy"]["21"] == [None, 0.5, None, None, None]


def test_imports_are_repeatable_and_never_overwrite(tmp_path):
  folder = write(tmp_path / "in", {"cifar10/Linf/Carmon.json": ROBUSTBENCH})
  assert len(import_results("robustbench", folder, tmp_path / "results")) == 2
  assert import_results("robustbench", folder, tmp_path / "results") == []
  write(folder, {"cifar10/Linf/Carmon.json": {**ROBUSTBENCH, "autoattack_acc": "12.00"}})
  with pytest.raises(CellMismatchError, match="there are two numbers for Carmon"):
    import_results("robustbench", folder, tmp_path / "results")


def test_wrong_files_are_one_line_and_import_nothing(tmp_path):
  cases = {
    "robustbench": ["{", "[]", {**ROBUSTBENCH, "clean_acc": "high"}, {**ROBUSTBENCH, "autoattack_acc": 900}],
    "oodrobustbench": [
      "",
      {**OODRB, "adv_acc": {"what": 0.1}},
      {**OODRB, "metrics": {"cinic": 3}},
      {**OODRB, "clean_acc": "x"},
    ],
    "nas": ["3", {"cifar10": {}}, {"cifar10": {"clean": {"accuracy": {"21": [1]}}}}],
  }
  for name, values in cases.items():
    for value in values:
      folder = tmp_path / "in"
      shutil.rmtree(folder, ignore_errors=True)
      place = "cifar10/clean_accuracy.json" if name == "nas" else "cifar10/Linf/x.json"
      write(folder, {"meta.json": META, place: value} if name == "nas" else {place: value})
      with pytest.raises(JaxrobustError) as error:
        import_results(name, folder, tmp_path / "results")
      assert isinstance(error.value, CorruptFileError | InputError) and "\n" not in str(error.value), value
      assert not (tmp_path / "results").exists()
  with pytest.raises(StorageError, match="no such file"):
    import_results("robustbench", tmp_path / "absent", tmp_path / "results")
  with pytest.raises(UnknownNameError, match="did you mean 'robustbench'"):
    import_results("robustbenchh", tmp_path, tmp_path)
  (tmp_path / "empty").mkdir()
  for name in FORMATS:
    with pytest.raises(JaxrobustError):
      export_results(name, tmp_path / "empty", tmp_path / "out")


def test_fuzzed_files_are_refused_in_one_line_or_read(tmp_path):
  chance, good = random.Random(0), {"robustbench": ROBUSTBENCH, "oodrobustbench": OODRB, "nas": NAS}
  place = {"robustbench": "cifar10/Linf/x.json", "oodrobustbench": "cifar10/Linf/x.json"}
  for name, value in good.items():
    for at in range(60):
      wrong = mutated(value, chance)
      folder = tmp_path / name / str(at)
      files = {path: wrong[path] for path in wrong if path in NAS} if name == "nas" else {place[name]: wrong}
      write(folder, {**({"meta.json": META} if name == "nas" else {}), **files})
      try:
        import_results(name, folder, tmp_path / f"{name}-{at}")
        export_results(name, tmp_path / f"{name}-{at}", tmp_path / f"{name}-{at}-out")
      except JaxrobustError as error:
        assert "\n" not in str(error)


@pytest.mark.data
@needs_data
def test_all_published_models_of_robustbench(tmp_path):
  folder = ROOT / "published" / "robustbench_model_info"
  assert len(import_results("robustbench", folder, tmp_path)) > 400
  export_results("robustbench", tmp_path, tmp_path / "out")
  for path in (tmp_path / "out").rglob("*.json"):
    ours, theirs = json.loads(path.read_text()), json.loads((folder / path.relative_to(tmp_path / "out")).read_text())
    for key in ("clean_acc", "autoattack_acc", "corruptions_acc", "external"):
      assert float(ours.get(key, -1)) == pytest.approx(float(theirs.get(key, -1)), abs=0.0051), (path, key)


@pytest.mark.data
@needs_data
def test_the_published_nas_data_set_there_and_back(tmp_path):
  folder = ROOT / "published" / "nas201"
  assert len(import_results("nas", folder, tmp_path / "results")) == 20
  export_results("nas", tmp_path / "results", tmp_path / "out")
  assert read(tmp_path / "out") == read(folder)
