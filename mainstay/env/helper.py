"""A helper: a process of low priority that computes one function of bytes for this one, beside it.

    helper = Helper("mainstay.journal.closed_segment")     # a module whose main calls `serve(answer)`
    answer = helper.ask(content)                    # what is asked meanwhile waits in line
    if answer.is_there: answer.content()            # or: await answer
    helper.close()

For work that would otherwise hold up a busy event loop: a thread helps little there, because only one of them runs
Python at a time. The process is started when it is first asked, keeps nothing from one
question to the next, and has no open files but its pipes. It ends with this process, however that ends: its input ends
then.

Whatever goes wrong with it is an `OSError`, and asking again starts another one. So a caller can always do the work
itself.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any, Final

_NICE: Final = 19
_SIZE_BYTES: Final = 8


class HelperAnswer:
    """What it will have computed."""

    def __init__(self, future: "Future[bytes]") -> None:
        self._future = future

    @property
    def is_there(self) -> bool:
        """Whether it has computed it, or failed to."""
        return self._future.done()

    def content(self) -> bytes:
        """Waits for it. Raises `OSError` if there is none."""
        return self._future.result()

    def __await__(self) -> Generator[Any, None, bytes]:
        """The same, on an event loop."""
        return asyncio.wrap_future(self._future).__await__()


class Helper:
    """One process, once it is needed. Its methods may be called from any thread."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"helper {module}")
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, content: bytes) -> HelperAnswer:
        """Let it compute."""
        return HelperAnswer(self._thread.submit(self._ask, content))

    def close(self) -> None:
        """Let it end once it has answered. Does not wait."""
        self._thread.submit(self._end)
        self._thread.shutdown(wait=False)

    def _ask(self, content: bytes) -> bytes:
        process = self._process
        if process is None:
            # A session of its own: what a terminal sends is for us, and we end it by ending.
            process = self._process = subprocess.Popen(
                [sys.executable, "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        try:
            if process.stdin is None or process.stdout is None:
                raise BrokenPipeError("the process has no pipes")
            _write(process.stdin, content)
            answer = _read(process.stdout)
        except OSError:
            self._end()
            raise
        if answer is None:
            self._end()
            raise BrokenPipeError(f"{self._module} exited without an answer")
        return answer

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()  # It keeps nothing.
            process.communicate()


def serve(answer: Callable[[bytes], bytes]) -> None:
    """In the helper: compute for as long as requests come."""
    os.nice(_NICE)
    while (content := _read(sys.stdin.buffer)) is not None:
        _write(sys.stdout.buffer, answer(content))


def _write(pipe: IO[bytes], content: bytes) -> None:
    pipe.write(len(content).to_bytes(_SIZE_BYTES))
    pipe.write(content)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytes | None:
    """None: there is no more."""
    head = pipe.read(_SIZE_BYTES)
    if len(head) < _SIZE_BYTES:
        return None
    size = int.from_bytes(head)
    content = pipe.read(size)
    return content if len(content) == size else None
