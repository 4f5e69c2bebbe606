"""What foreign code finds around it during a run, and which run that is.

Mainstay's own code is given a clock and a source of chance. Foreign code helps itself: to `time.time()`,
`uuid.uuid4()`, a thread. While a run is on, these are answered from the run's `RunContext` instead (time.py,
chance.py, network.py) or refused (fences.py); patches.py puts the answers in their place.

An answer only differs from the real thing on the thread that runs the simulation. Other threads of the process, those
of a test runner for instance, get what they always got. Three things are the whole process's, and change for them too:
the garbage collector is off, the time zone is UTC, and a function of `random` that another thread has kept, where it
cannot be replaced by name, draws from the run's numbers: the run is then not equal to another.
"""

import functools
import random
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from mainstay.sim.loop.clock import SimClock

if TYPE_CHECKING:
    from mainstay.sim.loop.loop import SimLoop

P = ParamSpec("P")
T = TypeVar("T")


class RunContext:
    """Time and chance for foreign code in one simulation. Lives on from one `run` to the next."""

    def __init__(self, loop: "SimLoop", clock: SimClock, seed: int) -> None:
        self.loop = loop
        self.clock = clock
        self.last_uuid_ticks = 0
        self.begin_again(seed)

    def begin_again(self, seed: int) -> None:
        """Draw from here on what this seed gives."""
        # Seeded with text: that goes through SHA-512, and is the same in each process.
        self.entropy = random.Random(f"mainstay/{seed}/entropy")
        self.random_state = random.Random(f"mainstay/{seed}/random").getstate()


_current: RunContext | None = None
_thread = 0


def current() -> RunContext | None:
    """The surroundings of the run that the caller is part of, if it is."""
    return _current if _thread == get_ident() else None


def enter(surroundings: RunContext) -> None:
    global _current, _thread
    if _current is not None:
        raise RuntimeError("a simulated run is already active in this process")
    _current = surroundings
    _thread = get_ident()


def leave() -> None:
    global _current
    _current = None


class Replacement(Generic[P, T]):
    """A function that stands in for a real one during a run, and passes on to it whenever no run is on.

    An object and not a function: builtin functions, which most of these replace, do not become methods when a class has
    one as an attribute, and so must not this.
    """

    def __init__(self, real: Callable[P, T], pretend: Callable[Concatenate[RunContext, P], T]) -> None:
        functools.update_wrapper(self, real)
        self.real = real
        self._pretend = pretend

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        surroundings = current()
        return self.real(*args, **kwargs) if surroundings is None else self._pretend(surroundings, *args, **kwargs)


def replace_method(real: Callable[P, T], pretend: Callable[Concatenate[RunContext, P], T]) -> Callable[P, T]:
    """Like `Replacement`, for a function that is an attribute of a class and does become a method."""

    @functools.wraps(real)
    def method(*args: P.args, **kwargs: P.kwargs) -> T:
        surroundings = current()
        return real(*args, **kwargs) if surroundings is None else pretend(surroundings, *args, **kwargs)

    return method


AnyReplacement = Replacement[..., Any]
