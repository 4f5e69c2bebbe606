"""Bytes that no attacker can predict, from the operating system: for keys and nonces.

Never for decisions, ids or jitter: those come from `Chance` (chance.py), so that a run can be repeated.
"""

import os


def random_bytes(size: int) -> bytes:
    return os.urandom(size)
