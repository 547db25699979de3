"""Speed as ratios measured inside one run: one file per capability, `jaxrobust bench NAME`.

May import everything but `cli`. Peers are used where they are installed and named as missing where not.
"""
