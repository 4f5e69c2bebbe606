"""A database operator made with kopf on its worst days. See README.md."""
