"""Chaos on real processes: a real cluster, real kills, real cut links, and promises that are checked from outside."""
