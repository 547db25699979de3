"""What cells say together: intervals, curves, agreement, transfer, and the metrics of a suite.

Numpy in, numbers out. May import everything up to `evaluation`; nothing here runs a network.
"""
