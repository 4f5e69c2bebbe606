"""The Authorization header of each request. A token that comes from a file is read again now and then."""

from datetime import timedelta
from pathlib import Path
from typing import Final

from mainstay.client.config import BadConfig, Config
from mainstay.env import Clock
from mainstay.env.disk import read_text

# Kubernetes renews the token of a pod when a fifth of its time, at least two minutes, is left.
READ_AGAIN_AFTER: Final = timedelta(minutes=1)
_READ_AGAIN_NS: Final = READ_AGAIN_AFTER // timedelta(microseconds=1) * 1000


class Credentials:
    """Reading the file blocks, for a moment once a minute. If it fails, the token that is known stays in use."""

    __slots__ = ("_clock", "_line", "_path", "_read_again_ns")

    def __init__(self, config: Config, clock: Clock) -> None:
        self._clock = clock
        self._path: Path | None = config.token_file
        self._line = _header(config.token) if config.token else b""
        self._read_again_ns: int | None = None

    def header(self) -> bytes:
        """The whole line; empty if there is no token. Raises `BadConfig` if there is no way to get one."""
        if self._path is not None:
            now_ns = self._clock.monotonic_ns()
            if self._read_again_ns is None or now_ns >= self._read_again_ns:
                self._read(self._path)
                self._read_again_ns = now_ns + _READ_AGAIN_NS
        return self._line

    def refused(self) -> bool:
        """The server did not take it. Whether another one may be had now."""
        before = self._line
        self._read_again_ns = None
        return self._path is not None and self.header() != before

    def _read(self, path: Path) -> None:
        try:
            self._line = _header(read_text(path).strip())
        except (OSError, ValueError) as error:
            if not self._line:
                raise BadConfig(f"the token file {path} cannot be used: {error}") from None


def _header(token: str) -> bytes:
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise BadConfig("the token is empty or has invalid characters")
    return f"Authorization: Bearer {token}\r\n".encode()
