"""Unmodified clients against a real server process."""
