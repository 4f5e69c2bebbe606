"""A machine of one's own at the end of a cable that can be cut: a network namespace and two virtual interfaces."""

import os
import subprocess
from types import TracebackType

NETWORK = "10.213.7"


class FarMachine:
    """Processes started with `prefix` are on it. Needs root."""

    host_address = f"{NETWORK}.1"
    address = f"{NETWORK}.2"

    def __init__(self) -> None:
        self.name = f"mainstay-{os.getpid()}"
        self._here, self._there = f"ms{os.getpid()}a"[-15:], f"ms{os.getpid()}b"[-15:]

    @property
    def prefix(self) -> list[str]:
        return ["ip", "netns", "exec", self.name]

    def __enter__(self) -> "FarMachine":
        _ip("netns", "add", self.name)
        try:
            _ip("link", "add", self._here, "type", "veth", "peer", "name", self._there, "netns", self.name)
            _ip("address", "add", f"{self.host_address}/30", "dev", self._here)
            _ip("link", "set", self._here, "up")
            for words in (
                ("link", "set", "lo", "up"),
                ("address", "add", f"{self.address}/30", "dev", self._there),
                ("link", "set", self._there, "up"),
            ):
                _ip("-n", self.name, *words)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _ip("netns", "delete", self.name)  # And with it the cable.

    def cut(self) -> None:
        _ip("link", "set", self._here, "down")

    def heal(self) -> None:
        _ip("link", "set", self._here, "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)
