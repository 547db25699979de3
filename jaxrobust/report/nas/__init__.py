"""The figures of NAS-Bench-201's cells and of supernets, as files and for the page.

`figures` says which there are and writes them; `accuracies`, `architectures` and `matrices` draw those of cells,
`supernets` that of subnets; `documents` finds what a folder has for the page.
"""
