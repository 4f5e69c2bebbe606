"""Invariants that are checked in production: what must be true of a state, whatever comes from outside.

Check where the state changes, cheaply: the comparison stands in the code, and the story is only put together when it
fails.

    if row.used != total:
        raise broken("a node's used room equals the sum of its pods' charges", f"node {name}", used=…, total=…)

What is too expensive for every change is checked for every n-th one, and for one object of many:

    self._samples = Sample(one_in=1000)
    ...
    if self._samples.take():
        self._check_node(name)

A broken invariant is a bug of ours, so there is nothing to handle: let it end the task. Code that catches `Exception`
so that the bug of one object does not stop the others lets `BrokenInvariant` through: the state that all of them share
is wrong. The process is unready from then on (`find_broken`, asked by /readyz), so that traffic and leadership go
elsewhere until it is restarted.

Only for bugs. Input that is wrong is refused with an error, and what another process did to the store is reported.
"""

import asyncio
import contextlib
import logging
import weakref
from typing import Final

_STORY_LENGTH_MAX: Final = 4000
_logger = logging.getLogger(__name__)

# By event loop, because all processes of a simulation live in one real process. The first one stays: what breaks after
# it is mostly its consequence.
_found: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, BrokenInvariant]" = weakref.WeakKeyDictionary()


class BrokenInvariant(AssertionError):
    """What must always be true is not. Make one with `broken`."""

    def __init__(self, rule: str, about: str, story: str) -> None:
        super().__init__(f"broken invariant: {rule}: {about}{f': {story}' if story else ''}")
        self.rule = rule
        self.about = about
        self.story = story


def broken(rule: str, about: str, **story: object) -> BrokenInvariant:
    """The exception to raise: which invariant, which object, and what is known of it. Makes the process unready."""
    text = ", ".join(f"{name}={value!r}" for name, value in story.items())[:_STORY_LENGTH_MAX]
    error = BrokenInvariant(rule, about, text)
    _logger.critical("%s", error)
    with contextlib.suppress(RuntimeError):  # On no loop: the caller gets it, and there is no process to be unready.
        _found.setdefault(asyncio.get_running_loop(), error)
    return error


def check(holds: bool, rule: str, about: str, **story: object) -> None:
    """Raise if the invariant does not hold. For where speed does not matter: the story is computed either way."""
    if not holds:
        raise broken(rule, about, **story)


def find_broken() -> BrokenInvariant | None:
    """The first invariant that was found broken in this process. While there is one, the process is not ready."""
    return _found.get(asyncio.get_running_loop())


class Sample:
    """One in so many, by counting: the same in two runs with one seed."""

    __slots__ = ("_left", "_one_in", "taken")

    def __init__(self, one_in: int) -> None:
        self._one_in = one_in
        self._left = one_in
        self.taken = 0
        """How many were taken."""

    def take(self) -> bool:
        """Whether this one is to be checked."""
        self._left -= 1
        if self._left:
            return False
        self._left = self._one_in
        self.taken += 1
        return True
