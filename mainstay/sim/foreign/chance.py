"""The chance that foreign code is given during a run: all of it from the seed.

The functions of `random` draw from one hidden generator. During a run it is in a state of the run's own, so that the
run also owns what was kept of those functions where no patch reaches, as a default argument for instance. Other threads
that call them by name draw from a copy of what the generator was. Generators that would seed themselves from the
operating system, `secrets`, `uuid` and `os.urandom` share one stream.

A generator that was made and seeded before the run keeps what it has: that is a difference from run to run which only
running twice shows.
"""

import contextlib
import functools
import os
import random
import uuid
from collections.abc import Iterator
from typing import Any, Final

from mainstay.sim.foreign.context import AnyReplacement, Replacement, RunContext, replace_method

_NODE: Final = 0x02_00_00_00_00_01  # A network card that no machine has: the second bit says "made up".
_UUID_EPOCH_TICKS: Final = 0x01B21DD213814000  # From 1582 to 1970 in steps of 100 ns.


def replacements() -> dict[tuple[str, str], AnyReplacement]:
    """By module and name, what stands there during a run. `uuid4`, `secrets` and `SystemRandom` all ask `urandom`."""
    table: dict[tuple[str, str], AnyReplacement] = {
        ("os", "urandom"): Replacement(os.urandom, _urandom),
        ("uuid", "uuid1"): Replacement(uuid.uuid1, _uuid1),
        ("uuid", "getnode"): Replacement(uuid.getnode, _getnode),
    }
    if hasattr(os, "getrandom"):
        table["os", "getrandom"] = Replacement(os.getrandom, _getrandom)
    for name, function in vars(random).items():
        if getattr(function, "__self__", None) is _shared:
            table["random", name] = _function_of_random(name)
    return table


def methods() -> dict[tuple[type, str], Any]:
    """By class and name, what stands there during a run."""
    return {(random.Random, "seed"): replace_method(random.Random.seed, _seed)}


_real_seed = random.Random.seed
_shared: random.Random = random.seed.__self__  # type: ignore[attr-defined]  # What the functions of `random` draw from.
_elsewhere = _shared  # What they draw from on a thread that no run is on.


@contextlib.contextmanager
def shared_generator(run: RunContext) -> Iterator[None]:
    """Let the functions of `random` go on where the last run left them, until the block is left."""
    global _elsewhere
    elsewhere = random.Random(0)
    elsewhere.setstate(_shared.getstate())
    _elsewhere = elsewhere
    _shared.setstate(run.random_state)
    try:
        yield
    finally:
        run.random_state = _shared.getstate()
        _shared.setstate(elsewhere.getstate())
        _elsewhere = _shared


def _function_of_random(name: str) -> AnyReplacement:
    def elsewhere(*args: Any, **kwargs: Any) -> Any:
        return getattr(_elsewhere, name)(*args, **kwargs)

    def here(run: RunContext, *args: Any, **kwargs: Any) -> Any:
        return getattr(_shared, name)(*args, **kwargs)  # Looked up: `seed` is replaced as well.

    functools.update_wrapper(elsewhere, getattr(_shared, name))
    return Replacement(elsewhere, here)


def _urandom(run: RunContext, size: int) -> bytes:
    return run.entropy.randbytes(size)


def _getrandom(run: RunContext, size: int, flags: int = 0) -> bytes:
    return run.entropy.randbytes(size)


def _getnode(run: RunContext) -> int:
    return _NODE


def _seed(run: RunContext, generator: random.Random, a: Any = None, version: int = 2) -> None:
    _real_seed(generator, run.entropy.getrandbits(128) if a is None else a, version)


def _uuid1(run: RunContext, node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
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
