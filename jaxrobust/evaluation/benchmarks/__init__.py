"""The published benchmarks as plans: one file each, over the relatives that a data set has."""
