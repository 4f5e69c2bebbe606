"""The chance that foreign code is given during a run: all of it from the seed.

The functions of `random` continue a state of their own (patches.py swaps it in and out). Generators that would seed
themselves from the operating system, `secrets`, `uuid` and `os.urandom` share one stream.

A generator that was made and seeded before the run keeps what it has: that is a difference from run to run which only
running twice shows.
"""

import os
import random
import uuid
from typing import Any, Final

from mainstay.sim.surroundings import AnyReplacement, Replacement, Surroundings, replace_method

_NODE: Final = 0x02_00_00_00_00_01  # A network card that no machine has: the second bit says "made up".
_UUID_EPOCH_TICKS: Final = 0x01B21DD213814000  # From 1582 to 1970 in steps of 100 ns.


def replacements() -> dict[tuple[str, str], AnyReplacement]:
    """By module and name, what stands there during a run. `uuid4`, `secrets` and `SystemRandom` all ask `urandom`."""
    return {
        ("os", "urandom"): Replacement(os.urandom, _urandom),
        ("random", "seed"): Replacement(random.seed, _seed_shared),
        ("uuid", "uuid1"): Replacement(uuid.uuid1, _uuid1),
        ("uuid", "getnode"): Replacement(uuid.getnode, _getnode),
    }


def methods() -> dict[tuple[type, str], Any]:
    """By class and name, what stands there during a run."""
    return {(random.Random, "seed"): replace_method(random.Random.seed, _seed)}


_real_seed = random.Random.seed
_shared: random.Random = random.seed.__self__  # type: ignore[attr-defined]  # What the functions of `random` draw from.


def _urandom(run: Surroundings, size: int) -> bytes:
    return run.entropy.randbytes(size)


def _getnode(run: Surroundings) -> int:
    return _NODE


def _seed(run: Surroundings, generator: random.Random, a: Any = None, version: int = 2) -> None:
    _real_seed(generator, run.entropy.getrandbits(128) if a is None else a, version)


def _seed_shared(run: Surroundings, a: Any = None, version: int = 2) -> None:
    _seed(run, _shared, a, version)


def _uuid1(run: Surroundings, node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
    # Two in one moment must differ, and virtual time has moments with many events in them.
    ticks = max(run.clock.wall_ns() // 100 + _UUID_EPOCH_TICKS, run.last_uuid_ticks + 1)
    run.last_uuid_ticks = ticks
    sequence = run.entropy.getrandbits(14) if clock_seq is None else clock_seq
    return uuid.UUID(
        fields=(
            ticks & 0xFFFFFFFF,
            ticks >> 32 & 0xFFFF,
            ticks >> 48 & 0x0FFF,
            sequence >> 8 & 0x3F,
            sequence & 0xFF,
            _NODE if node is None else node,
        ),
        version=1,
    )
