"""Twins: named bugs, planted into the code under test for one run, which the scenario of that promise must catch.

A scenario that passes proves little unless it is known to fail when the promise is broken. A twin is a patch applied
from outside; production code has no switch for it.
"""
