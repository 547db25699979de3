"""One architecture family per file, as linen modules on NHWC images, sizes as rows of a table."""
