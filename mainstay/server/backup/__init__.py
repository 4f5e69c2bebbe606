"""Backups: all of a store at one revision in a file, and a store made from such a file."""
