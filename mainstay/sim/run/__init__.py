"""Runs of a scenario: from a seed, in forks, repeated, swept, and kept as bundles."""
