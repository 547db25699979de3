"""One method per file, each written for one image; losses, norms and projections they share.

May import `core` only. Attacks never see data, batches or devices.
"""
