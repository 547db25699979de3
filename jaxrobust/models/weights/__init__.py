"""Weight files: those of other libraries, read without them, and the portable form of this package."""
