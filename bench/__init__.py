"""Benchmarks. `python -m bench` runs all of them, `python -m bench.NAME` one; how to write one: bench/measure.py."""
