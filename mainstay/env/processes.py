"""Copies of this process that do one thing, send what they found, and end.

    with Children() as children:
        children.start(work)  # `work(send)` runs in the copy; `send` gives bytes to the parent
        while (heard := children.next()) is not None:
            ...  # a `Message`, or `ChildEnded`

A fork starts where this process is: with everything imported, and whatever was built up before. It costs some
milliseconds, where a new interpreter costs a tenth of a second and has to build everything again.

Rules for the copy: it leaves without a goodbye (no `atexit`, no `finally` of its callers), and must not go on using
connections or files that the original still uses. Fork only from a process with a single thread: others are not copied,
and what they held stays locked in the copy.
"""

import contextlib
import errno
import gc
import os
import select
import signal
import struct
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, NoReturn

Send = Callable[[bytes], None]

TOO_LONG: Final = "it took too long"
"""How a copy ended that was killed because its time was over (`ChildEnded.how`)."""

_HEAD: Final = struct.Struct("<I")
_READ_BYTES: Final = 1 << 16
_FAILED: Final = 70  # The exit status of a copy whose work has raised.


@dataclass(frozen=True, slots=True)
class Message:
    """Something that a child has sent."""

    child: "Child"
    body: bytes


@dataclass(frozen=True, slots=True)
class ChildEnded:
    """A child is over, and has sent nothing more. `how` is empty if its work has returned, else says what happened."""

    child: "Child"
    how: str


@dataclass(eq=False)
class Child:
    """A copy of this process at work."""

    pid: int
    pipe: int
    _received: bytearray = field(default_factory=bytearray, repr=False)
    _killed_for: str = ""

    def kill(self, why: str) -> None:
        """End it at once. Its end is told as ever, with the reason."""
        self._killed_for = why
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def _read(self) -> bool:
        """Take what is there. False at the end."""
        part = os.read(self.pipe, _READ_BYTES)
        self._received += part
        return bool(part)

    def _messages(self) -> Iterator[Message]:
        while len(self._received) >= _HEAD.size:
            (length,) = _HEAD.unpack_from(self._received)
            end = _HEAD.size + length
            if len(self._received) < end:
                return
            body = bytes(self._received[_HEAD.size : end])
            del self._received[:end]
            yield Message(self, body)

    def _end(self) -> ChildEnded:
        os.close(self.pipe)
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if self._killed_for:
            return ChildEnded(self, self._killed_for)
        if code == 0:
            return ChildEnded(self, "")
        return ChildEnded(self, f"ended by signal {-code}" if code < 0 else f"ended with status {code}")


def cores() -> int:
    """How many processes can really run at once."""
    return len(os.sched_getaffinity(0))


def fork(work: Callable[[Send], None]) -> Child:
    """Start a copy that does this and nothing else."""
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _be_a_copy(work, writing)
    os.close(writing)
    return Child(pid, reading)


def _be_a_copy(work: Callable[[Send], None], pipe: int) -> NoReturn:
    status = _FAILED
    # What the original left as garbage is not ours to collect: it may belong to libraries with threads (gRPC), which a
    # copy does not have, and which crash or hang when their objects go without them.
    gc.freeze()
    try:
        # Ctrl-C goes to the whole group; only the original decides what that means.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        work(lambda body: _write(pipe, _HEAD.pack(len(body)) + body))
        status = 0
    except BaseException:  # noqa: BLE001 - there is no caller to raise to
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _write(pipe: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(pipe, view) :]
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
            os._exit(_FAILED)  # The parent is gone.


class Children:
    """Several copies at once, and what they send. Leaving the block ends all that are left."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._by_pipe: dict[int, tuple[Child, float | None]] = {}
        self._waiting: deque[Message | ChildEnded] = deque()

    def __enter__(self) -> "Children":
        return self

    def __exit__(self, *_: object) -> None:
        for child, _until in list(self._by_pipe.values()):
            child.kill("it is no longer needed")
            self._over(child)

    def __len__(self) -> int:
        """How many are still at work."""
        return len(self._by_pipe)

    def start(self, work: Callable[[Send], None], *, at_most: timedelta | None = None) -> Child:
        """Start one. If it takes longer than `at_most` of real time it is killed."""
        child = fork(work)
        until = None if at_most is None else time.monotonic() + at_most.total_seconds()
        self._by_pipe[child.pipe] = (child, until)
        self._poll.register(child.pipe, select.POLLIN)
        return child

    def next(self) -> Message | ChildEnded | None:
        """What happens next. Waits for it; None if no child is left."""
        while not self._waiting:
            if not self._by_pipe:
                return None
            for pipe, _ in self._poll.poll(self._patience_ms()):
                child, _until = self._by_pipe[pipe]
                is_open = child._read()
                self._waiting.extend(child._messages())
                if not is_open:
                    self._waiting.append(self._over(child))
            self._kill_late()
        return self._waiting.popleft()

    def _over(self, child: Child) -> ChildEnded:
        self._poll.unregister(child.pipe)
        del self._by_pipe[child.pipe]
        return child._end()

    def _patience_ms(self) -> float | None:
        untils = [until for _, until in self._by_pipe.values() if until is not None]
        return max(0.0, min(untils) - time.monotonic()) * 1000 + 1 if untils else None

    def _kill_late(self) -> None:
        now = time.monotonic()
        for pipe, (child, until) in list(self._by_pipe.items()):
            if until is not None and until <= now:
                child.kill(TOO_LONG)
                self._by_pipe[pipe] = (child, None)
