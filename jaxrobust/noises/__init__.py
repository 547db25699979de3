"""Natural noise: corruptions (ImageNet-C), sequences (ImageNet-P), system noise (ImageNet-S), low-pass filters.

Imports `jaxrobust.core` only. Everything is written for one image (H, W, C) in [0, 1] with a key.
"""
