"""Suites and the runner: the only room that knows models, data, attacks and results alike.

May import everything below it: core, models, attacks, data, results, engine, training.
"""
