"""Sieve's three patterns for any controller: what becomes of one that sees less, or older, than what is true.

    report = sieve(SCENARIO, "controllers-1")
    print(report)

    patterns.py     which plans there are, from a run without faults, and which of them cannot matter
    sieve.py      run each, and compare its end with that of the run without faults, field by field

The patterns are those of the paper on Sieve (Sun et al., OSDI 2022): a controller that crashes between two of its
writes (*intermediate state*), that never sees a state which lasted for a while (*unobserved state*), and that is
started again on a past and then catches up (*stale state*).
"""

from mainstay.sim.sieve.patterns import SievePattern
from mainstay.sim.sieve.sieve import SieveReport, Sifted, sieve, sift_runs

__all__ = ["SievePattern", "SieveReport", "Sifted", "sieve", "sift_runs"]
