"""Techniques that change images and labels, and the operations they are made of."""
