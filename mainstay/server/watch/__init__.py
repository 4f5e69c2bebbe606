"""Watches: one feed from the store, windows per kind, and a session per client."""
