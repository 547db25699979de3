"""Models by name: `registry` builds them, `zoo` loads trained ones; `families`, `layers` and `weights` are inner rooms.

May import `core` only. Every module is called as `module(images, train=False)` on normalized images.
"""
