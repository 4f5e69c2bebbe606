"""Standard output whose reader has gone, as in `mainstay replay … | head`: the command ends at once, and says nothing.

A write to a closed pipe is an `OSError`, which commands also handle for files that they cannot read. So it is raised as
something that none of them handles, and the exit code is that of programs that SIGPIPE ends. (SIGPIPE itself stays
ignored: it would also end a process whose connection to the API server breaks.)
"""

from typing import Any, Final, TextIO

import click

from mainstay.cli.exits import Exit


class PipeClosed(click.exceptions.Exit):
    def __init__(self) -> None:
        super().__init__(Exit.PIPE_CLOSED)


class PipeOutput:
    """Passes everything on to a stream. To be put in the place of `sys.stdout`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream: Final = stream
        self._is_closed = False

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._is_closed = True
            raise PipeClosed from None

    def flush(self) -> None:
        if self._is_closed:
            return  # The interpreter flushes once more before it exits.
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._is_closed = True
            raise PipeClosed from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
