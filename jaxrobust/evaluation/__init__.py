"""Evaluation: a suite of jobs, each answered by a cell.

`evaluate` makes a suite (`suites`), finds its data and makes its jobs (`suite_jobs`, `kinds`), runs what is not on disk
yet (`runner`: `attack_job`, `sequence_job`, `transfer`) and reports the cells. `studies` trains and evaluates many
networks alike. The only room that knows models, data, attacks and results alike: it may import everything below it.
"""
