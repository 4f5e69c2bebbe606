"""A health check of the objects that a task cannot handle."""

import contextlib
import logging
from collections.abc import Iterator
from typing import Final

from mainstay.env.health import find_current
from mainstay.env.invariants import BrokenInvariant

PROBLEMS_MAX: Final = 100

_logger = logging.getLogger(__name__)


class FailedObjects:
    """The objects that a task of this process cannot handle. One of them must not end the work on all others.

        with self._failed.guard(key, StoreError):        # those are handled elsewhere
            self._take(key, entry)

    What fails is logged with its key, and the check `objects/NAME` fails until the key is handled, or is gone. A broken
    invariant is passed on: then more than this object is wrong.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._problems: dict[str, str] = {}
        health = find_current()
        if health is not None:
            health.add(f"objects/{name}", self.find_problem)

    @contextlib.contextmanager
    def guard(self, key: str, *passed_on: type[Exception]) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if isinstance(error, (BrokenInvariant, *passed_on)):
                raise
            self.note(key, error)
        else:
            self._problems.pop(key, None)

    def note(self, key: str, error: Exception) -> None:
        problem = repr(error)
        if self._problems.get(key) != problem:  # Once, however often it is tried again.
            _logger.error("%s cannot handle %s: %s", self._name, key, problem, exc_info=error)
        if len(self._problems) < PROBLEMS_MAX:
            self._problems[key] = problem

    def clear(self) -> None:
        """Everything is looked at again."""
        self._problems.clear()

    def find_problem(self) -> str:
        if not self._problems:
            return ""
        key, error = next(iter(self._problems.items()))
        rest = len(self._problems) - 1
        return f"cannot handle {key}: {error}{f' (and {rest} more)' if rest else ''}"
