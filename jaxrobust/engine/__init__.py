"""The continuous-batching scheduler: slots, refill, cascades, verification outside the attack.

May import `core` and `attacks`. Nothing here knows datasets, files or models by name.
"""
