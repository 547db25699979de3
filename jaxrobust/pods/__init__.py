"""What programs become on slices of accelerators, by the accelerators' own compilers: none of them has to be there.

Compiles attacks and training steps for a named slice, and reads off what they move, compute and communicate.
"""
