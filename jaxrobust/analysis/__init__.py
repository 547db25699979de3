"""Analyses over cells of many models: trends, effective robustness, rankings, agreement, transfer.

Numpy in, numbers out. May import everything up to `evaluation`; nothing here runs a network.
"""
