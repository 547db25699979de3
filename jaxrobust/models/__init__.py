"""One architecture family per file, as linen modules on NHWC images, found by name with their metadata.

May import `core` only. Every module is called as `module(images, train=False)` on normalised images.
"""
