"""One thin file per command: read a config, call the library, print. Nothing is computed here."""
