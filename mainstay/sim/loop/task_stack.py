"""Where a task waits: the chain of calls from the task down to what it awaits, as text.

The chain ends at an asynchronous generator: Python does not tell where inside it the iteration is.
"""

import asyncio
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any, Final

_OTHERS: Final = ("mainstay", "asyncio", "site-packages")  # Directories.


def describe(tasks: Iterable[asyncio.Task[Any]]) -> str:
    """One line for each task: its name, the innermost call that waits, and who called that."""
    return "\n".join(f"  {task.get_name()}: {_chain(task)}" for task in tasks)


def is_own(task: asyncio.Task[Any]) -> bool:
    """Whether code waits in it that is neither Mainstay's nor Python's or a library's."""
    frame, awaited = _inside(task.get_coro())
    while frame is not None:
        if not any(part in _OTHERS for part in PurePath(frame.f_code.co_filename).parts):
            return True
        frame, awaited = _inside(awaited)
    return False


def _chain(task: asyncio.Task[Any]) -> str:
    places = []
    frame, awaited = _inside(task.get_coro())
    while frame is not None:
        path = PurePath(frame.f_code.co_filename)
        places.append(f"{'/'.join(path.parts[-2:])}:{frame.f_lineno} {frame.f_code.co_qualname}")
        frame, awaited = _inside(awaited)
    return " ← ".join(reversed(places)) or "not started"


def _inside(awaitable: Any) -> tuple[Any, Any]:
    """The frame of a suspended coroutine or generator, and what that waits for in turn."""
    for frame, awaited in (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await")):
        if hasattr(awaitable, frame):
            return getattr(awaitable, frame), getattr(awaitable, awaited)
    return None, None
