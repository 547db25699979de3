"""Layers that several families share: the convolution, pooling and normalization, attention, patches, the head."""
