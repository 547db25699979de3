"""Supernets: one set of weights for many networks, trained once (BigNAS, Yu et al. 2020, arXiv:2003.11142).

`space` says what a subnet may be, `network` computes any of them by one program, `training` trains all of them together
and recalibrates one, `study` varies factors one at a time and judges hundreds of subnets.
"""
