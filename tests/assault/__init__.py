"""Attempts to break the package: hostile files, kills, signals, full disks. `bash launch/test.sh assault` runs them."""
