"""Training: losses, one jitted step, one loop, checkpoints.

May import core, models, attacks and data.
"""
