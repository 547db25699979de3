"""Results in the formats of other benchmarks, both ways: `robustbench`, `oodrobustbench` and `nas`.

Numbers from elsewhere become flat records (schema 0 of `results.migrations`) with their source, and from there cells
like any other, without verdicts per example. Numbers for elsewhere come from cells, whoever computed them.
"""

from jaxrobust.results.exchange.convert import FORMATS, export_results, import_results

__all__ = ["FORMATS", "export_results", "import_results"]
