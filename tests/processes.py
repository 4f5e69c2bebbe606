"""Waiting for what another process does: the one place where tests look at a real clock again and again."""

import time
from collections.abc import Callable
from typing import TypeVar

AnswerT = TypeVar("AnswerT")


def wait_until(
    is_so: Callable[[], AnswerT],
    within_s: float,
    *,
    every_s: float = 0.05,
    is_hopeless: Callable[[], bool] = lambda: False,
) -> AnswerT | None:
    """Ask until the answer is true, and return it. None when the time is over, or when it can no longer become so."""
    deadline = time.monotonic() + within_s
    while not is_hopeless() and time.monotonic() < deadline:
        answer = is_so()
        if answer:
            return answer
        time.sleep(every_s)
    return None


def eventually(is_so: Callable[[], AnswerT], within_s: float = 20.0) -> AnswerT:
    """The same for what must become so. For what a client cannot wait for itself."""
    answer = wait_until(is_so, within_s)
    assert answer is not None, f"not so within {within_s} s: {is_so}"
    return answer
