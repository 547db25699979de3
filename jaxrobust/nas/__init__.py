"""Architecture and robustness: the space of NAS-Bench-201, one program for all its cells, measures, search, analyses.

May import `core`, `models`, `attacks`, `noises`, `data` and `results`. `space`, `table`, `search` and `analyses` are
numpy alone; `one_program`, `jacobian` and `hessian` compute with JAX. The network of one cell is a model as any other,
`jaxrobust.make_model("nb201-13714")`.
"""
