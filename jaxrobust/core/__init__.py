"""The vocabulary every other room speaks: classifiers, problems, probes, threat models, keys.

Imports nothing else of this package. `errors` and `registry` need no JAX.
"""
