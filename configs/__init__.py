"""Configs by name: `--config cifar10:pgd-at` asks `cifar10.py` for "pgd-at"; installed as `jaxrobust.configs`."""
