"""Vital tasks: those without which a process looks healthy and is not.

A loop that follows the store, renews a lease or writes the journal runs for as long as its process. If it ends, by a
bug or by an error that its author did not foresee, the process must not go on as if nothing had happened: it logs which
task ended and why, the check `task/NAME` of its health fails, and it exits, so that its supervisor restarts it
(`Health.failed`, asked by what runs the process). Spawn every such loop here; tests/test_tidy.py finds those that
are not.

Cancelling a task is how it is stopped, and no failure.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from mainstay.env import tasks
from mainstay.env.health import Health, find_current


def spawn(work: Coroutine[Any, Any, None], *, name: str, may_end: bool = False) -> asyncio.Task[None]:
    """Start a vital task. `may_end`: it is right for it to return, when there is nothing left to do."""
    health = find_current()
    if health is None:
        return tasks.spawn(work, name=name)
    health.note_start(name)
    task = tasks.spawn(work, name=name)
    task.add_done_callback(lambda ended: _note_end(ended, name, health, may_end))
    return task


def _note_end(task: asyncio.Task[None], name: str, health: Health, may_end: bool) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        health.note_failure(name, str(error) or repr(error))
    elif task.cancelled() or may_end:
        health.note_stop(name)
    else:
        health.note_failure(name, "it returned")
