"""Studies: many runs that differ in little, trained and evaluated alike, and compared.

`runs` reads the rows of a config (`configs/studies.py`), `evaluator` evaluates networks, `run` does all of it, `rows`
has the numbers; `report.studies` shows them.
"""
